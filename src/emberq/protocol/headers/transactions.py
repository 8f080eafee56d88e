"""Ending and checking transactional messages."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32, Int64
from emberq.protocol.headers.common import RpcRequest


class EndTransaction(RpcRequest, frozen=True, kw_only=True):
    """Producer to broker, oneway; the command's remark may carry why it was rolled back."""

    code: ClassVar = RequestCode.END_TRANSACTION
    producer_group: str
    # Where the half message stands in its queue.
    half_queue_offset: Int64 = field(name="tranStateTableOffset")
    commit_log_offset: Int64
    # 0 unknown, 8 commit, 12 rollback: the bits of a message's sysFlag.
    commit_or_rollback: Int32
    is_from_check: bool = field(name="fromTransactionCheck", default=False)
    message_id: str = field(name="msgId")
    transaction_id: str | None = None
    topic: str | None = None


class CheckTransactionState(RpcRequest, frozen=True, kw_only=True):
    """Broker to producer, oneway: how did it end? The body is the half message."""

    code: ClassVar = RequestCode.CHECK_TRANSACTION_STATE
    half_queue_offset: Int64 = field(name="tranStateTableOffset")
    commit_log_offset: Int64
    message_id: str | None = field(name="msgId", default=None)
    transaction_id: str | None = None
    offset_message_id: str | None = field(name="offsetMsgId", default=None)
    topic: str | None = None


class ResumeCheckHalfMessage(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.RESUME_CHECK_HALF_MESSAGE
    message_id: str | None = field(name="msgId", default=None)
    topic: str | None = None
