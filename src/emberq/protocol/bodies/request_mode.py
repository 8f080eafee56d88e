"""Whether a group pulls or pops a topic (401, 402)."""

from msgspec import Struct, field

from emberq.model.subscription import MessageRequestMode


class RequestModeSetting(Struct, frozen=True, kw_only=True):
    """The mode of one group for one topic (401)."""

    group: str | None = field(name="consumerGroup", default=None)
    mode: MessageRequestMode = MessageRequestMode.PULL
    shared_queue_count: int = field(name="popShareQueueNum", default=0)
    topic: str | None = None


class RequestModeTable(Struct, frozen=True, kw_only=True):
    """All settings: topic → group → mode (402)."""

    settings: dict[str, dict[str, RequestModeSetting]] = field(
        name="messageRequestModeMap", default_factory=dict
    )
