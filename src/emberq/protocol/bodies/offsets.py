"""Tables of consumer offsets: reset (220, 222), status (221, 223), copies for slaves (43, 45)."""

from msgspec import Struct, field

from emberq.model.data_version import DataVersion
from emberq.model.queue import MessageQueue


class QueueOffsets(Struct, frozen=True, kw_only=True):
    """New offsets of a group (220, 222). Go clients read 220 in the fastjson dialect only."""

    offsets: dict[MessageQueue, int] = field(name="offsetTable", default_factory=dict)


class QueueOffset(Struct, frozen=True, kw_only=True):
    broker_name: str = field(name="brokerName")
    offset: int = 0
    queue_id: int = field(name="queueId")
    topic: str


class QueueOffsetList(Struct, frozen=True, kw_only=True):
    """The same as QueueOffsets for callers written in C++ (220)."""

    offsets: list[QueueOffset] = field(name="offsetTable", default_factory=list)


class ConsumerStatus(Struct, frozen=True, kw_only=True):
    """Offsets as clients hold them: a client fills the second table (221), a broker the first,
    by client id (223)."""

    by_client: dict[str, dict[MessageQueue, int]] = field(
        name="consumerTable", default_factory=dict
    )
    offsets: dict[MessageQueue, int] = field(name="messageQueueTable", default_factory=dict)


class ConsumerOffsetTable(Struct, frozen=True, kw_only=True):
    """All committed offsets: "topic@group" → queue id → offset (43, consumerOffset.json)."""

    data_version: DataVersion | None = field(name="dataVersion", default=None)
    topics_by_group: dict[str, list[str]] | None = field(name="groupTopicMap", default=None)
    offsets: dict[str, dict[int, int]] = field(name="offsetTable", default_factory=dict)
    pull_offsets: dict[str, dict[int, int]] | None = field(name="pullOffsetTable", default=None)


class DelayOffsetTable(Struct, frozen=True, kw_only=True):
    """How far each delay level is delivered (45, delayOffset.json)."""

    data_version: DataVersion | None = field(name="dataVersion", default=None)
    offsets: dict[int, int] = field(name="offsetTable", default_factory=dict)


class CorrectionOffsets(Struct, frozen=True, kw_only=True):
    """Queue id → offset that a group should have (308)."""

    offsets: dict[int, int] = field(name="correctionOffsets", default_factory=dict)
