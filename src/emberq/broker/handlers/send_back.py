"""Messages that a consumer gives back (36): again later, or to the group's dead letters."""

import asyncio
import random
from typing import Protocol

from emberq.broker.appending import Appender, OutgoingMessage, copy_of
from emberq.broker.groups import Groups
from emberq.broker.handlers.send import REJECTED_REMARK
from emberq.broker.handlers.send_targets import FAQ_REMARK
from emberq.broker.retries import DEAD_LETTER_QUEUE_COUNT, retry_level, retry_limit
from emberq.broker.settings import Settings
from emberq.broker.topics import Topics
from emberq.errors import RequestRejected
from emberq.model.group import GroupConfig
from emberq.model.system_topics import SCHEDULE_TOPIC, dead_letter_topic, retry_topic
from emberq.model.topic import Permission, TopicFlag
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.headers.send import ConsumerSendMessageBack
from emberq.record.decode import decode_record
from emberq.record.message_id import make_offset_id
from emberq.record.properties import decode_properties
from emberq.record.property_names import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC, WAIT
from emberq.record.record import Record
from emberq.remoting.registry import HandlerRegistry, Request
from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus

_DEAD_LETTER_DELAY = "0"


class SendBackCounter(Protocol):
    def count_put(
        self, topic: str, queue_id: int, count: int, size: int, time_ms: int = 0
    ) -> None: ...

    def count_send_back(self, group: str, topic: str) -> None: ...


class SendBackHandler:
    """Stores a changed copy of a message that is in the log already."""

    def __init__(
        self,
        *,
        settings: Settings,
        topics: Topics,
        groups: Groups,
        store: MessageStore,
        appender: Appender,
        broker_ip: str,
        statistics: SendBackCounter,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._groups = groups
        self._store = store
        self._appender = appender
        self._broker_ip = broker_ip
        self._statistics = statistics

    def add_to(self, registry: HandlerRegistry) -> None:
        wait_max_ms = self._settings.config.send_wait_max_ms
        registry.add_typed(ConsumerSendMessageBack, self.send_back, wait_max_ms=wait_max_ms)

    async def send_back(self, request: Request[ConsumerSendMessageBack]) -> Command:
        header = request.header
        if self._store.is_busy:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, REJECTED_REMARK)
        group = self._groups.find(header.group)
        if group is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {header.group} {FAQ_REMARK}",
            )
        if not self._settings.config.broker_permission & Permission.WRITE:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._broker_ip}] sending message is forbidden",
            )
        if group.retry_queue_count <= 0:  # this group wants no retries: the message is dropped
            return answer(request.command)
        self._check_retry_topic(group, header.is_unit_mode)
        message = self._copy(group, header, await self._record(header), request.command.version)
        appended = self._appender.put(message)
        if appended.result.status is not PutStatus.PUT_OK:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, appended.result.status.name)
        if appended.topic == SCHEDULE_TOPIC:
            self._statistics.count_put(appended.topic, appended.queue_id, 1, appended.size)
        self._statistics.count_send_back(group.name, message.properties[RETRY_TOPIC])
        return answer(request.command)

    def _check_retry_topic(self, group: GroupConfig, is_unit_mode: bool) -> None:
        name = retry_topic(group.name)
        topic = self._topics.create_if_absent(
            name,
            group.retry_queue_count,
            system_flag=int(TopicFlag.UNIT_SUBSCRIPTION) if is_unit_mode else 0,
        )
        if not topic.permission & Permission.WRITE:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden"
            )

    async def _record(self, header: ConsumerSendMessageBack) -> Record:
        offset = header.commit_log_offset
        content = None
        if self._store.log.min_offset <= offset < self._store.log.end:
            content = self._store.record_at(offset)
            if content is None:
                content = await asyncio.to_thread(self._store.record_at_waiting, offset)
        if content is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}"
            )
        return decode_record(content, is_crc_checked=False)

    def _copy(
        self, group: GroupConfig, header: ConsumerSendMessageBack, record: Record, version: int
    ) -> OutgoingMessage:
        properties = decode_properties(record.properties)
        properties.setdefault(RETRY_TOPIC, record.topic)
        properties.setdefault(
            ORIGIN_MESSAGE_ID, make_offset_id(record.store_host, record.log_offset)
        )
        properties[WAIT] = "false"
        limit = retry_limit(group.retry_count_max, header.max_reconsume_times, version)
        level = retry_level(record.reconsume_times, limit, header.delay_level)
        if level is None:
            topic, queue_id = dead_letter_topic(group.name), 0
            self._topics.create_if_absent(topic, DEAD_LETTER_QUEUE_COUNT)
            properties[DELAY] = _DEAD_LETTER_DELAY
        else:
            topic = retry_topic(group.name)
            queue_id = int(random.random() * group.retry_queue_count)
            properties[DELAY] = str(level)
        message = copy_of(record, properties, topic, queue_id)
        message.reconsume_times += 1
        return message
