"""What a scan knows of many queues at once: their ends, and a group's offsets and starts in them
(31001, 31004, 31005). docs/formats/scan.md."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec.structs import replace

from emberq.broker.groups import Groups, group_name_trouble
from emberq.broker.members import Consumers
from emberq.broker.offsets import ConsumerOffsets
from emberq.broker.scan_starts import ScanStarts
from emberq.broker.topics import Topics
from emberq.errors import RequestRejected
from emberq.model.group import GroupConfig
from emberq.model.system_topics import retry_topic
from emberq.model.topic import Permission
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.scans import (
    HEADS_TOPICS_MAX,
    CommitRequest,
    HeadRow,
    Heads,
    HeadsQuery,
    OffsetsByTopic,
    PinnedStarts,
    PinRequest,
    group_in_use_remark,
)
from emberq.protocol.codes import EmberqCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.fastjson_writer import Dialect
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer, HandlerRegistry
from emberq.store.message_store import MessageStore

log = logging.getLogger(__name__)

NONE = -1
EXTERNAL_ATTRIBUTE = "emberq.external"
# Groups for which a warning is written once; above it no more are.
WARNED_MAX = 10_000


class ScanGroupHandlers:
    def __init__(
        self,
        *,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        consumers: Consumers,
        offsets: ConsumerOffsets,
        starts: ScanStarts,
        starts_changed: Callable[[], None],
        save_starts: Callable[[], Awaitable[None]],
        store_root: Path,
        store_id: str,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._starts = starts
        self._starts_changed = starts_changed
        self._save_starts = save_starts
        self._root = store_root.resolve()
        self._store_id = store_id
        self._warned: set[str] = set()

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(EmberqCode.SCAN_HEADS, self.heads)
        registry.add(EmberqCode.SCAN_PIN, self.pin)
        registry.add(EmberqCode.SCAN_COMMIT, self.commit)

    def heads(self, command: Command, _: Connection) -> Answer:
        asked = decode_body(HeadsQuery, command.body)
        if len(asked.topics) > HEADS_TOPICS_MAX:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, f"more than {HEADS_TOPICS_MAX} topics at once"
            )
        queues = {
            name: self._rows(name, topic.read_queue_count, asked.group)
            for name in asked.topics
            if (topic := self._topics.get(name)) is not None
            if topic.permission & Permission.READ
        }
        heads = Heads(queues=queues, store_root=str(self._root), store_id=self._store_id)
        return answer(command, body=encode_body(heads, Dialect.STRICT))

    async def pin(self, command: Command, _: Connection) -> Command:
        asked = decode_body(PinRequest, command.body)
        self._check_group(asked.group)
        topics = list(asked.starts)
        if asked.is_cleared:
            is_changed = self._starts.clear(asked.group, topics)
        else:
            self._check_unused(asked.group)
            is_changed = self._starts.pin(asked.group, asked.starts)
        if is_changed:
            self._starts_changed()
        # Also what is known already: whoever set it may still wait for the disk.
        await self._save_starts()
        starts: OffsetsByTopic = {topic: self._starts.of(asked.group, topic) for topic in topics}
        return answer(command, body=encode_body(PinnedStarts(starts=starts), Dialect.STRICT))

    def commit(self, command: Command, _: Connection) -> Answer:
        asked = decode_body(CommitRequest, command.body)
        self._check_group(asked.group)
        self._check_unused(asked.group)
        known = self._groups.get(asked.group)
        if known is None:
            group = external_group(asked.group)
            self._groups.put(group)
            # Nothing comes back from it; official tools look for a group by it.
            self._topics.create_if_absent(retry_topic(group.name), group.retry_queue_count)
        elif not _is_external(known):
            self._warn(known.name)
        for topic, queues in asked.offsets.items():
            if self._topics.get(topic) is None:
                continue
            for queue_id, offset in queues.items():
                if offset > self._store.max_offset(topic, queue_id):
                    # Of a topic that was made anew: its successor would be skipped up to there.
                    log.info("offset_beyond_end topic=%s queue=%d", topic, queue_id)
                elif offset > self._offsets.query(asked.group, topic, queue_id):
                    self._offsets.commit(asked.group, topic, queue_id, offset)
        return answer(command)

    def _rows(self, topic: str, queue_count: int, group: str | None) -> list[HeadRow]:
        store, offsets = self._store, self._offsets
        starts = self._starts.of(group, topic) if group else {}
        return [
            (
                queue_id,
                store.min_offset(topic, queue_id),
                store.max_offset(topic, queue_id),
                offsets.query(group, topic, queue_id) if group else NONE,
                starts.get(queue_id, NONE),
            )
            for queue_id in range(queue_count)
        ]

    def _check_group(self, name: str) -> None:
        trouble = group_name_trouble(name)
        if trouble is not None:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, trouble)

    def _check_unused(self, name: str) -> None:
        """Whoever consumes with a group would skip what a query says that it has read."""
        online, known = self._consumers.get(name), self._groups.get(name)
        if online is None or (known is not None and _is_external(known)):
            return  # clients of an external group are there by mistake, and get nothing
        count = len(set(online.client_ids()))
        raise RequestRejected(ResponseCode.NO_PERMISSION, group_in_use_remark(name, count))

    def _warn(self, name: str) -> None:
        if name not in self._warned and len(self._warned) < WARNED_MAX:
            self._warned.add(name)
            log.warning("scan_moves_group_of_consumers group=%s", name)


def _is_external(group: GroupConfig) -> bool:
    """Whether only queries read with it. A tool that lets consumers in makes it theirs."""
    return EXTERNAL_ATTRIBUTE in group.attributes and not group.is_consume_enabled


def external_group(name: str) -> GroupConfig:
    """A group that queries read with: it has offsets, and no consumer may join it."""
    return replace(
        GroupConfig(name=name), is_consume_enabled=False, attributes={EXTERNAL_ATTRIBUTE: "true"}
    )
