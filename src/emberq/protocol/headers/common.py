"""Fields that 5.x clients add to most requests; a plain broker may ignore them all."""

from msgspec import field

from emberq.protocol.header_fields import Header


class RpcRequest(Header, frozen=True, kw_only=True):
    """A request that may say which broker and namespace it is meant for."""

    namespace: str | None = field(name="ns", default=None)
    has_namespaced_names: bool | None = field(name="nsd", default=None)
    target_broker_name: str | None = field(name="bname", default=None)
    is_oneway: bool | None = field(name="oway", default=None)


class TopicRequest(RpcRequest, frozen=True, kw_only=True):
    """A request about a topic; on static topics it sees logical queues unless this is false."""

    is_logical: bool | None = field(name="lo", default=None)
