"""Taking back a message that waits for its time (370): a marker follows it into its slot."""

from collections.abc import Callable

from emberq.broker.appending import STORED_CODES, Appender, OutgoingMessage, PutCounter
from emberq.broker.durable import until_durable
from emberq.broker.settings import Settings
from emberq.broker.topics import Topics
from emberq.errors import ProtocolError, RequestRejected
from emberq.model.topic import Permission
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.headers.send import RecallMessage
from emberq.protocol.recall_handle import RecallHandle
from emberq.record.property_names import (
    BORN_TIMESTAMP,
    MESSAGE_REGION,
    PRODUCER_GROUP,
    TAGS,
    TIMER_DELETE_UNIQUE_KEY,
    TIMER_DELIVER_MS,
    UNIQUE_KEY,
)
from emberq.remoting.registry import HandlerRegistry, Request
from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus

MARKER_BODY = b"0"
MARKER_TAG = "_RECALL_TAG_"
NOT_AVAILABLE_REMARK = "recall failed, broker service not available"
_SUCCESS_REMARK = "not set any response code"  # official brokers forget to clear it


class RecallHandler:
    def __init__(
        self,
        *,
        settings: Settings,
        topics: Topics,
        store: MessageStore,
        appender: Appender,
        statistics: PutCounter,
        now_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._store = store
        self._appender = appender
        self._statistics = statistics
        self._now_ms = now_ms

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add_typed(
            RecallMessage, self.recall, wait_max_ms=self._settings.config.send_wait_max_ms
        )

    async def recall(self, request: Request[RecallMessage]) -> Command:
        handle = self._checked(request.header)
        appended = self._appender.put(self._marker(handle, request))
        result = appended.result
        if result.status is not PutStatus.PUT_OK:
            raise self._refusal(ResponseCode.SYSTEM_ERROR, "recall failed, execute error")
        self._statistics.count_put(appended.topic, appended.queue_id, 1, appended.size)
        if self._store.config.is_sync_flush:
            status = await until_durable(self._store, result.end_offset)
            if status not in STORED_CODES:
                raise self._refusal(ResponseCode.SYSTEM_ERROR, "recall failed, execute error")
        fields = {"msgId": handle.message_id, **self._fields()}
        return answer(request.command, ResponseCode.SUCCESS, _SUCCESS_REMARK, fields)

    def _checked(self, header: RecallMessage) -> RecallHandle:
        """The handle of a recall that is allowed and in time. Raises RequestRejected."""
        config = self._settings.config
        if not config.recall_message_enable:
            raise self._refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        is_read_only = not config.broker_permission & Permission.WRITE
        if self._now_ms() < config.start_accept_send_request_time_stamp or (
            is_read_only and not config.allow_recall_when_broker_not_writeable
        ):
            raise self._refusal(ResponseCode.SERVICE_NOT_AVAILABLE, NOT_AVAILABLE_REMARK)
        if self._topics.get(header.topic) is None:
            raise self._refusal(
                ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist"
            )
        try:
            handle = RecallHandle.decode(header.recall_handle)
        except ProtocolError:
            raise self._illegal("recall handle is invalid") from None
        if handle.topic != header.topic:
            raise self._illegal("recall failed, topic not match")
        if handle.broker_name != config.broker_name:
            raise self._illegal(NOT_AVAILABLE_REMARK)
        if not 0 < handle.deliver_at_ms - self._now_ms() < config.timer_max_delay_sec * 1000:
            raise self._illegal("recall failed, timestamp invalid")
        return handle

    def _marker(self, handle: RecallHandle, request: Request[RecallMessage]) -> OutgoingMessage:
        """It asks for the time of the message, so it waits in the same slot."""
        key = handle.message_id
        if self._settings.config.append_topic_for_timer_delete_key:
            key = f"{handle.topic}+{key}"
        now_ms = self._now_ms()
        properties = {
            TAGS: MARKER_TAG,
            TIMER_DELETE_UNIQUE_KEY: key,
            UNIQUE_KEY: handle.message_id,
            TIMER_DELIVER_MS: str(handle.deliver_at_ms),
            BORN_TIMESTAMP: str(now_ms),
            PRODUCER_GROUP: request.header.producer_group or "",
        }
        return OutgoingMessage(
            topic=handle.topic,
            queue_id=0,
            body=MARKER_BODY,
            properties=properties,
            born_host=request.connection.packed_peer,
            born_at_ms=now_ms,
        )

    def _fields(self) -> dict[str, str]:
        return {MESSAGE_REGION: self._settings.config.region_id}

    def _illegal(self, remark: str) -> RequestRejected:
        return self._refusal(ResponseCode.ILLEGAL_OPERATION, remark)

    def _refusal(self, code: ResponseCode, remark: str) -> RequestRejected:
        return RequestRejected(code, remark, self._fields())
