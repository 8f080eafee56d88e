"""Which failures of a send are tried again, and which answers are results."""

from emberq.client.core.message import SendResult, SendStatus
from emberq.client.core.outgoing import Outgoing
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command

_STATUS_OF: dict[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}

# A broker that says so may have a neighbour that does not.
RETRIED_CODES = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)

TRANSACTION_ID_FIELD = "transactionId"


def is_result(code: int) -> bool:
    """Whether a message was stored, if perhaps with less safety than wanted."""
    return code in _STATUS_OF


def send_result(answer: Command, message: Outgoing, queue: MessageQueue) -> SendResult:
    """What the answer says; `queue` has the topic as the user knows it."""
    fields = answer.fields or {}
    queue_id = int(fields.get("queueId") or queue.queue_id)
    return SendResult(
        status=_STATUS_OF[answer.code],
        message_id=fields.get("batchUniqId") or message.message_id,
        offset_message_id=fields.get("msgId", ""),
        queue=queue if queue_id == queue.queue_id else _other(queue, queue_id),
        queue_offset=int(fields.get("queueOffset") or 0),
        transaction_id=fields.get(TRANSACTION_ID_FIELD),
        recall_handle=fields.get("recallHandle"),
        region=fields.get("MSG_REGION", "DefaultRegion"),
        is_trace_on=fields.get("TRACE_ON") != "false",
    )


def _other(queue: MessageQueue, queue_id: int) -> MessageQueue:
    return MessageQueue(queue.broker_name, queue_id, queue.topic)
