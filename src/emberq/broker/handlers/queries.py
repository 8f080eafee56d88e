"""Single messages: by key (12), by place in the log (33); and entries of a queue (321)."""

import asyncio
import re
from collections.abc import Callable
from typing import cast

from emberq.broker.config import BrokerConfig
from emberq.broker.filters.group_filters import GroupFilters, stored_form
from emberq.broker.members import Consumers
from emberq.errors import RequestRejected
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.queries import ConsumeQueueEntries, ConsumeQueueEntry
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.fastjson import write_pretty_json
from emberq.protocol.header_fields import from_fields, to_fields
from emberq.protocol.headers.queries import (
    QueryConsumeQueue,
    QueryMessage,
    QueryMessageResponse,
    ViewMessageById,
)
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry, Request
from emberq.store.consume_queue import ENTRY
from emberq.store.key_query import IndexType
from emberq.store.message_store import MessageStore

# Entries of a queue in one answer, whatever is asked for.
ENTRIES_MAX = 10_000
# What official brokers say when nobody set a code.
_NO_CODE_SET = "not set any response code"
_INDEX_TYPES = ("K", "U", "T")
_LIST = re.compile(r"\[[\d,\s]+\]")


class QueryHandlers:
    def __init__(
        self,
        *,
        store: MessageStore,
        consumers: Consumers,
        filters: GroupFilters,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._store = store
        self._consumers = consumers
        self._filters = filters
        self._config = config

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.QUERY_MESSAGE, self.by_key)
        registry.add_typed(ViewMessageById, self.by_log_offset)
        registry.add_typed(QueryConsumeQueue, self.queue_entries)

    async def by_key(self, command: Command, _: Connection) -> Command:
        # Without topic or key nothing is found, which is no error.
        asked = from_fields(QueryMessage, {"topic": "", "key": "", **(command.fields or {})})
        count_max = asked.max_message_count
        if asked.is_unique_key_query:
            count_max = self._config().default_query_max_num
        if count_max < 0:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"maxNum {count_max} is negative")
        kind = asked.index_type if asked.index_type in _INDEX_TYPES else None
        found = await asyncio.to_thread(
            self._store.find_by_key,
            asked.topic,
            asked.key,
            count_max,
            asked.begin_at_ms,
            asked.end_at_ms,
            index_type=cast(IndexType | None, kind),
        )
        if not found.records:
            response = QueryMessageResponse(index_updated_at_ms=0, index_commit_log_offset=0)
            raise RequestRejected(
                ResponseCode.QUERY_NOT_FOUND,
                "can not find message, maybe time range not correct",
                to_fields(response),
            )
        response = QueryMessageResponse(
            index_updated_at_ms=found.last_update_timestamp_ms,
            index_commit_log_offset=found.last_update_log_offset,
        )
        return answer(command, fields=to_fields(response), body=b"".join(found.records))

    async def by_log_offset(self, request: Request[ViewMessageById]) -> Command:
        log_offset = request.header.commit_log_offset
        record = None
        if 0 <= log_offset < self._store.log.end:
            record = self._store.record_at(log_offset)
            if record is None:
                record = await asyncio.to_thread(self._store.record_at_waiting, log_offset)
        if record is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {log_offset}"
            )
        return answer(request.command, body=record)

    async def queue_entries(self, request: Request[QueryConsumeQueue]) -> Command:
        asked = request.header
        topic, queue_id, group = asked.topic or "", asked.queue_id, asked.consumer_group
        queue = self._store.queues.get(topic, queue_id)
        if queue is None or (queue.end_offset == 0 and asked.index == 0):
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        low, high = queue.min_offset, queue.end_offset
        if not low <= asked.index < high:
            remark = f"Index {asked.index} of {queue_id}@{topic} is not exist!"
            return answer(request.command, remark=remark)
        count = max(0, min(asked.count, ENTRIES_MAX))
        content = await asyncio.to_thread(queue.entries_from_disk, asked.index, count)
        body = ConsumeQueueEntries(
            queue_offset_max=high,
            queue_offset_min=low,
            entries=[
                ConsumeQueueEntry(log_offset=log_offset, size_bytes=size, tag_code=tag_code)
                for log_offset, size, tag_code in ENTRY.iter_unpack(content)
            ],
            filter_text=None if group is None else self._filter_text(group, topic),
            subscription=None if group is None else self._consumers.subscription(group, topic),
        )
        return answer(request.command, remark=_NO_CODE_SET, body=encode_body(body))

    def _filter_text(self, group: str, topic: str) -> str:
        if self._consumers.subscription(group, topic) is None:
            return f"{group}@{topic} is not online!"
        found = self._filters.get(topic, group)
        if found is None:
            return "null"
        return _compact_lists(write_pretty_json(stored_form(found)).decode())


def _compact_lists(text: str) -> str:
    """Official brokers write lists of numbers on one line here."""
    return _LIST.sub(lambda found: "".join(found.group().split()), text)
