"""How the logical queues of a static topic lie on brokers; name servers only pass this on."""

from msgspec import Struct, field

GLOBAL_SCOPE = "__global__"
UNKNOWN_POSITION = -1


class StaticTopicMapping(Struct, frozen=True, kw_only=True):
    """Which logical queues of a topic are served by one broker now."""

    broker_name: str | None = field(name="bname", default=None)
    current_queue_ids: dict[int, int] = field(name="currIdMap", default_factory=dict)
    is_dirty: bool = field(name="dirty", default=False)
    epoch: int = 0
    scope: str = GLOBAL_SCOPE
    topic: str | None = None
    queue_count: int = field(name="totalQueues", default=0)


class LogicQueueSegment(Struct, frozen=True, kw_only=True):
    """A stretch of a logical queue that lies in one physical queue."""

    broker_name: str | None = field(name="bname", default=None)
    end_offset: int = field(name="endOffset", default=UNKNOWN_POSITION)
    generation: int = field(name="gen", default=0)
    logic_offset: int = field(name="logicOffset", default=0)
    queue_id: int = field(name="queueId", default=0)
    start_offset: int = field(name="startOffset", default=0)
    end_at_ms: int = field(name="timeOfEnd", default=UNKNOWN_POSITION)
    start_at_ms: int = field(name="timeOfStart", default=UNKNOWN_POSITION)


class StaticTopicMappingDetail(Struct, frozen=True, kw_only=True):
    """A mapping with the history of every logical queue that the broker hosts."""

    broker_name: str | None = field(name="bname", default=None)
    current_queue_ids: dict[int, int] = field(name="currIdMap", default_factory=dict)
    is_dirty: bool = field(name="dirty", default=False)
    epoch: int = 0
    hosted_queues: dict[int, list[LogicQueueSegment]] = field(
        name="hostedQueues", default_factory=dict
    )
    scope: str = GLOBAL_SCOPE
    topic: str | None = None
    queue_count: int = field(name="totalQueues", default=0)
