"""Storing single messages (10, 310), also those that consumers send again.

A plain message goes a short way: its fields are read into local values, its properties text is
looked through once and kept as it is, and its answer is a finished frame. Whatever is unusual
about a message sends it the long way, which does the same in plainer steps.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from emberq.broker.appending import (
    STORED_CODES,
    TIMER_PROPERTIES,
    Appended,
    Appender,
    OutgoingMessage,
    PutCounter,
    delay_level,
    is_wait_wanted,
    refusal,
)
from emberq.broker.clock import steady_ms
from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.handlers.send_answers import SendAnswers
from emberq.broker.handlers.send_batch import put_batch
from emberq.broker.handlers.send_fields import SendValues, optional_number, read_send, shortened
from emberq.broker.handlers.send_targets import (
    FAQ_REMARK,
    SendTargets,
    Target,
    any_queue,
    illegal_queue,
)
from emberq.broker.held_sends import HeldSends
from emberq.broker.retries import DEAD_LETTER_QUEUE_COUNT, retry_limit
from emberq.broker.settings import Settings
from emberq.broker.topics import Topics
from emberq.broker.transactions.half_messages import is_half
from emberq.broker.transactions.half_queue import HalfQueue
from emberq.errors import RequestRejected
from emberq.model.system_topics import RETRY_PREFIX, dead_letter_topic
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import ONEWAY_BIT, Command, answer
from emberq.protocol.recall_handle import RecallHandle
from emberq.record.host import PackedHost
from emberq.record.properties import parse_properties
from emberq.record.property_names import (
    CLUSTER,
    DELAY,
    INNER_COUNT,
    KEYS,
    MESSAGE_REGION,
    POP_CHECKPOINT,
    TAGS,
    TRACE_ON,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
)
from emberq.record.system_flag import HOSTS_IPV6_MASK, INNER_BATCH, TRANSACTION_MASK
from emberq.remoting.dispatch import OVERLOAD_REMARK
from emberq.remoting.registry import Answer, HandlerRegistry
from emberq.store.message_store import MessageStore
from emberq.store.results import PutResult, PutStatus

if TYPE_CHECKING:
    from emberq.remoting.connection import Connection

REJECTED_REMARK = "[REJECTREQUEST]system busy, start flow control for a while"
TOO_MANY_HALVES_REMARK = "[OVERLOAD]too many transactions wait for their end"

# Properties that a broker looks at or writes itself: a message with one goes the long way.
_UNUSUAL_PROPERTIES = TIMER_PROPERTIES | {
    CLUSTER,
    DELAY,
    INNER_COUNT,
    MESSAGE_REGION,
    POP_CHECKPOINT,
    TRACE_ON,
    TRANSACTION_PREPARED,
}
_has_no_unusual = frozenset(_UNUSUAL_PROPERTIES).isdisjoint
_UNUSUAL_BITS = HOSTS_IPV6_MASK | TRANSACTION_MASK | INNER_BATCH
_CODES = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
)
_DEAD_LETTER_DELAY = "-1"
_STORED = PutStatus.PUT_OK


class SendHandler:
    """Serves the codes that store messages."""

    def __init__(
        self,
        *,
        settings: Settings,
        topics: Topics,
        groups: Groups,
        store: MessageStore,
        store_host: PackedHost,
        appender: Appender,
        halves: HalfQueue,
        broker_ip: str,
        statistics: PutCounter,
        has_order_locks: Callable[[str], bool],
        new_unique_key: Callable[[], str],
        now_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._groups = groups
        self._store = store
        self._store_host = store_host
        self._admission = store.admission
        self._put = store.put
        self._appender = appender
        self._halves = halves
        self._broker_ip = broker_ip
        self._count_put = statistics.count_put
        self._count_put_failed = statistics.count_put_failed
        self._has_order_locks = has_order_locks
        self._new_unique_key = new_unique_key
        self._targets = SendTargets(settings, topics, broker_ip, now_ms)
        self._target_of = self._targets.get
        self._held = HeldSends(
            store.when_durable,
            count_wait_ms=statistics.count_put_wait_ms,
            steady_ms=steady_ms,
        )
        self._is_sync_flush = store.config.is_sync_flush
        self._configure(settings.config)
        settings.on_change(self._configure)

    def add_to(self, registry: HandlerRegistry) -> None:
        wait_max_ms = self._settings.config.send_wait_max_ms
        registry.add(RequestCode.SEND_MESSAGE, self.send_long, wait_max_ms=wait_max_ms)
        for code in _CODES[1:]:
            registry.add(code, self.send, wait_max_ms=wait_max_ms)

        def follow(config: BrokerConfig) -> None:
            for code in _CODES:
                registry.set_wait_max(code, config.send_wait_max_ms)

        self._settings.on_change(follow)

    def _configure(self, config: BrokerConfig) -> None:
        self._answers = SendAnswers(self._store_host, config.region_id, config.trace_on)
        self._properties = {**self._answers.fields, CLUSTER: config.broker_cluster_name}
        self._added_text = "".join(
            f"{name}\x01{value}\x02" for name, value in self._properties.items()
        )

    def send_long(self, command: Command, connection: "Connection") -> Answer:
        """The form with long names (10)."""
        command.fields = shortened(command.fields or {})
        return self.send(command, connection)

    def send(self, command: Command, connection: "Connection") -> Answer:
        """The form with one-letter names (310, 320)."""
        fields = command.fields or {}
        values = read_send(fields)
        topic, queue_id, system_flag, born_at_ms, flag, text, reconsume_times, is_batch = values
        if self._admission.is_index_busy or (self._is_sync_flush and self._held.is_full):
            raise self._overload()
        target = self._target_of(topic) or self._targets.find(topic, fields, self._answers.fields)
        if not 0 <= queue_id < target.queue_count:
            if queue_id >= 0:
                raise illegal_queue(queue_id, target.config, connection.peer, self._answers.fields)
            queue_id = any_queue(target)
        if is_batch:
            return self._send_batch(command, values, connection, target, queue_id)
        properties = parse_properties(text)
        is_ended = not text or text[-1] == "\x02"
        if (
            target.is_retry
            or system_flag & _UNUSUAL_BITS
            or not _has_no_unusual(properties)
            # Else something is in the text that disappears when it is parsed.
            or len(properties) != text.count("\x02") + (not is_ended)
        ):
            return self._send_unusual(command, connection, target, queue_id, properties)
        stored_text = f"{text}{self._added_text}" if is_ended else f"{text}\x02{self._added_text}"
        unique_key = properties.get(UNIQUE_KEY)
        if unique_key is None:
            unique_key = self._new_unique_key()
            stored_text = f"{stored_text}{UNIQUE_KEY}\x01{unique_key}\x02"
        result = self._put(
            topic,
            queue_id,
            command.body,
            stored_text.encode("utf-8", "replace"),
            flag=flag,
            system_flag=system_flag | target.system_flag,
            born_at_ms=born_at_ms,
            born_host=connection.packed_peer,
            reconsume_times=reconsume_times,
            tags=properties.get(TAGS),
            keys=properties.get(KEYS),
            unique_key=unique_key,
        )
        if result.status is not _STORED:
            raise self._refusal(result.status)
        log_offset, end_offset = result.log_offset, result.end_offset
        self._count_put(topic, queue_id, 1, end_offset - log_offset)
        if command.flag & ONEWAY_BIT:
            return None
        if self._is_sync_flush and is_wait_wanted(properties):
            self._hold(command, connection, result, queue_id, unique_key)
            return None
        return self._answers.stored(
            command, 0, queue_id, result.queue_offset, log_offset, unique_key
        )

    def _send_unusual(
        self,
        command: Command,
        connection: "Connection",
        target: Target,
        queue_id: int,
        properties: dict[str, str],
    ) -> Answer:
        """The long way. The answer names the queue that was asked for, wherever it went."""
        fields = command.fields or {}
        topic, _, system_flag, born_at_ms, flag, _, reconsume_times, _ = read_send(fields)
        properties.pop(POP_CHECKPOINT, None)
        message = OutgoingMessage(
            topic=topic,
            queue_id=queue_id,
            body=command.body,
            properties=properties,
            born_host=connection.packed_peer,
            born_at_ms=born_at_ms,
            flag=flag,
            # Only a property makes a half message. Official brokers keep the bits of others, which
            # are then never delivered.
            system_flag=(system_flag & ~(TRANSACTION_MASK | HOSTS_IPV6_MASK)) | target.system_flag,
            reconsume_times=reconsume_times,
        )
        if target.is_retry:
            self._give_up_if_due(message, fields, command.version)
        unique_key = properties.get(UNIQUE_KEY)
        if unique_key is None:
            unique_key = properties[UNIQUE_KEY] = self._new_unique_key()
        properties.update(self._properties)
        if self._is_half(message):
            appended = self._halves.put(message)
        else:
            appended = self._appender.put(message)
        result = appended.result
        if result.status is not _STORED:
            raise self._refusal(result.status)
        self._count_put(appended.topic, appended.queue_id, 1, appended.size)
        handle = self._recall_handle(message, appended, unique_key)
        if self._is_sync_flush and is_wait_wanted(properties):
            self._hold(command, connection, result, queue_id, unique_key, handle)
            return None
        return self._answers.stored(
            command, 0, queue_id, result.queue_offset, result.log_offset, unique_key, handle
        )

    def _recall_handle(
        self, message: OutgoingMessage, appended: Appended, unique_key: str
    ) -> str | None:
        """With what a message that waits can be taken back; None for others."""
        if appended.timer_slot_ms is None or message.topic.startswith(RETRY_PREFIX):
            return None
        return RecallHandle(
            topic=message.topic,
            broker_name=self._settings.config.broker_name,
            deliver_at_ms=appended.timer_slot_ms + 1,
            message_id=unique_key,
        ).encode()

    def _give_up_if_due(
        self, message: OutgoingMessage, fields: Mapping[str, str], version: int
    ) -> None:
        """A consumer sends a message to itself once more: too often makes a dead letter."""
        name = message.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find(name)
        if group is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {name} {FAQ_REMARK}",
                self._answers.fields,
            )
        limit = retry_limit(group.retry_count_max, optional_number(fields, "l"), version)
        # A group that consumes in order does not wait for a retry: others would overtake it.
        if message.reconsume_times > limit or self._has_order_locks(name):
            message.topic = dead_letter_topic(name)
            message.queue_id = 0
            message.properties[DELAY] = _DEAD_LETTER_DELAY
            self._topics.create_if_absent(message.topic, DEAD_LETTER_QUEUE_COUNT)

    def _is_half(self, message: OutgoingMessage) -> bool:
        """Whether a message is to be stored out of sight.

        Raises:
            RequestRejected: it is, and may not be.
            ProtocolError: its delay, which counts when it is committed, is no number.
        """
        properties = message.properties
        if not is_half(properties):
            return False
        if delay_level(properties) > 0 and message.reconsume_times > 0:
            return False  # a consumer before 4.6.1 sends back a message that was one
        if self._settings.config.reject_transaction_message:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._broker_ip}] sending transaction message is forbidden",
                self._answers.fields,
            )
        if self._halves.is_full:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, TOO_MANY_HALVES_REMARK)
        return True

    def _send_batch(
        self,
        command: Command,
        values: SendValues,
        connection: "Connection",
        target: Target,
        queue_id: int,
    ) -> Answer:
        answers = self._answers
        outcome = put_batch(
            self._store,
            values,
            command.body,
            connection.packed_peer,
            target,
            queue_id,
            answers.fields,
        )
        result = outcome.result
        if result.status is not _STORED:
            raise self._refusal(result.status)
        size = result.end_offset - result.log_offset
        self._count_put(target.config.name, queue_id, result.count, size)

        def frame(status: PutStatus) -> Answer:
            code = STORED_CODES.get(status)
            if code is None:
                return self._failed(command, status)
            return answers.batch_stored(
                command, code, queue_id, result.queue_offset, result.log_offsets, outcome.unique_key
            )

        if self._is_sync_flush and outcome.is_wait_wanted:
            self._held.hold(command, connection, result.end_offset, frame)
            return None
        return frame(_STORED)

    def _hold(
        self,
        command: Command,
        connection: "Connection",
        result: PutResult,
        queue_id: int,
        unique_key: str,
        handle: str | None = None,
    ) -> None:
        """Answer when the message is durable, or will not be in time."""
        answers = self._answers

        def frame(status: PutStatus) -> Answer:
            code = STORED_CODES.get(status)
            if code is None:
                return self._failed(command, status)
            return answers.stored(
                command, code, queue_id, result.queue_offset, result.log_offset, unique_key, handle
            )

        self._held.hold(command, connection, result.end_offset, frame)

    def _overload(self) -> RequestRejected:
        remark = REJECTED_REMARK if self._store.is_busy else OVERLOAD_REMARK
        return RequestRejected(ResponseCode.SYSTEM_BUSY, remark)

    def _failed(self, command: Command, status: PutStatus) -> Command:
        rejected = self._refusal(status)
        return answer(command, rejected.code, rejected.remark, rejected.fields)

    def _refusal(self, status: PutStatus) -> RequestRejected:
        self._count_put_failed()
        return refusal(
            status,
            self._answers.fields,
            config=self._settings.config,
            body_size_max=self._settings.store.max_message_size,
            disk_usage=self._store.disk_usage,
        )
