"""Pulls (11, 361): checks, reading, long polling, answers.

Hot: one pull is one run through `_serve`, without a task. What waits for messages is in
`broker/held_pulls.py`, who wakes it is `broker/long_polling.py`.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from msgspec import Struct

from emberq.broker.cold_reads import ColdReads
from emberq.broker.config import BrokerConfig
from emberq.broker.faq import FAQ_HINT
from emberq.broker.filters.choice import FilterChoice
from emberq.broker.filters.message_filter import MessageFilter
from emberq.broker.groups import Groups
from emberq.broker.held_pulls import HOLD_MAX_MS, HeldPull, HeldPulls
from emberq.broker.offsets import ConsumerOffsets
from emberq.broker.pull_request import COMMITS_OFFSET, MAY_SUSPEND, Pull, read_pull
from emberq.broker.topics import Topics
from emberq.errors import RequestRejected
from emberq.model.group import GroupConfig
from emberq.model.topic import Permission, TopicConfig
from emberq.protocol.answer_frame import AnswerFrame
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command
from emberq.remoting.connection import Connection
from emberq.remoting.dispatch import OVERLOAD_REMARK
from emberq.remoting.registry import Answer, HandlerRegistry
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.message_store import MessageStore
from emberq.store.reader import ReadLimits
from emberq.store.results import ReadResult, ReadStatus

# Entries looked at for one pull, however many messages it asks for.
SCAN_MAX = 8_000
# Limits are made once per `maxMsgNums`; so many different ones are kept.
LIMITS_KEPT_MAX = 1_000
QUEUE_ENTRY_SIZE = 20
MASTER_ID = 0

_READ = int(Permission.READ)
_LITE = int(RequestCode.LITE_PULL_MESSAGE)
_FOUND = ReadStatus.FOUND
_NO_MATCH = ReadStatus.NO_MATCHED_MESSAGE
_EMPTY = (ReadStatus.NO_MESSAGE_IN_QUEUE, ReadStatus.NO_MATCHED_LOGIC_QUEUE)

FORBIDDEN_BROKER, FORBIDDEN_GROUP, FORBIDDEN_TOPIC = "1", "2", "3"

_FIELDS = (
    *("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"),
    *("topicSysFlag", "groupSysFlag"),
)
_CODES = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
_FRAMES = {status: AnswerFrame(code, status.name, _FIELDS) for status, code in _CODES.items()}
_NOT_FOUND = ResponseCode.PULL_NOT_FOUND
# A queue without messages, asked at its begin and elsewhere.
_EMPTY_FRAME = AnswerFrame(_NOT_FOUND, ReadStatus.NO_MESSAGE_IN_QUEUE.name, _FIELDS)
_EMPTY_MOVED_FRAME = AnswerFrame(
    ResponseCode.PULL_OFFSET_MOVED, ReadStatus.NO_MESSAGE_IN_QUEUE.name, _FIELDS
)
_RESET_FRAME = AnswerFrame(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", _FIELDS)


class GetStatistics(Protocol):
    """What is counted of pulls."""

    def count_get(
        self, group: str, topic: str, queue_id: int, count: int, size: int, time_ms: int = 0
    ) -> None: ...

    def note_get(self, found: bool, count: int) -> None: ...


class _Turn(Struct, frozen=True, gc=False):
    """One run of a pull: its first, or one of a pull that was held."""

    pull: Pull
    command: Command
    connection: Connection
    held: HeldPull | None = None
    # A held pull is answered now, whatever is found.
    is_last: bool = False


class _Read(NamedTuple):
    """What is read, and where."""

    queue: ConsumeQueue | None
    offset: int
    limits: ReadLimits


class PullHandlers:
    def __init__(
        self,
        *,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        offsets: ConsumerOffsets,
        choice: FilterChoice,
        held: HeldPulls,
        cold_reads: ColdReads,
        statistics: GetStatistics,
        config: Callable[[], BrokerConfig],
        broker_ip: str,
        steady_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._choice = choice
        self._held = held
        self._cold_reads = cold_reads
        self._statistics = statistics
        self._config = config
        self._broker_ip = broker_ip
        self._steady_ms = steady_ms
        self._limits: dict[int, ReadLimits] = {}
        self._limits_of: BrokerConfig | None = None
        self.may_hold = True  # not any more when the broker stops

    def add_to(self, registry: HandlerRegistry) -> None:
        config = self._config()
        registry.add(
            RequestCode.PULL_MESSAGE,
            self.pull,
            wait_max_ms=float(config.wait_time_mills_in_pull_queue),
        )
        registry.add(
            RequestCode.LITE_PULL_MESSAGE,
            self.pull,
            wait_max_ms=float(config.wait_time_mills_in_lite_pull_queue),
        )

    def pull(self, command: Command, connection: Connection) -> Answer:
        return self._serve(_Turn(read_pull(command.fields or {}), command, connection))

    def replay(self, held: HeldPull, *, is_last: bool) -> None:
        """Run a held pull again: it is answered if it finds something, or if this is its end."""
        turn: _Turn = held.request
        connection = turn.connection
        again = _Turn(turn.pull, turn.command, connection, held, is_last)

        def serve() -> Answer:
            try:
                return self._serve(again)
            except BaseException:
                self._held.remove(held)  # its answer is the failure
                raise

        connection.answer_with(turn.command, serve)

    def _serve(self, turn: _Turn) -> Answer:
        pull = turn.pull
        config = self._config()
        if not config.broker_permission & _READ:
            raise _forbidden(f"the broker[{self._broker_ip}] pulling message is", FORBIDDEN_BROKER)
        if turn.command.code == _LITE and not config.lite_pull_message_enable:
            what = f"the broker[{self._broker_ip}] for lite pull consumer is"
            raise _forbidden(what, FORBIDDEN_BROKER)
        group = self._groups.find(pull.group)
        if group is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{pull.group}] does not exist, {FAQ_HINT}",
                {},
            )
        if not group.is_consume_enabled:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"subscription group no permission, {pull.group}",
                {"forbiddenType": FORBIDDEN_GROUP},
            )
        topic = self._readable_topic(turn)
        wanted = self._choice.choose(pull, group)
        return self._read(turn, group, topic, wanted, config)

    def _readable_topic(self, turn: _Turn) -> TopicConfig:
        pull = turn.pull
        topic = self._topics.get(pull.topic)
        if topic is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{pull.topic}] not exist, apply first please! {FAQ_HINT}",
                {},
            )
        if not topic.permission & _READ:
            raise _forbidden(f"the topic[{pull.topic}] pulling message is", FORBIDDEN_TOPIC)
        if not 0 <= pull.queue_id < topic.read_queue_count:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{pull.queue_id}] is illegal, topic:[{pull.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_count}] "
                f"consumer:[/{turn.connection.peer}]",
                {},
            )
        return topic

    def _read(
        self,
        turn: _Turn,
        group: GroupConfig,
        topic: TopicConfig,
        wanted: MessageFilter,
        config: BrokerConfig,
    ) -> Answer:
        pull, store = turn.pull, self._store
        queue = store.queues.get(pull.topic, pull.queue_id)
        reset = self._offsets.take_reset(pull.group, pull.topic, pull.queue_id)
        if reset is not None and config.use_server_side_reset_offset:
            return self._moved_by_reset(turn, group, topic, reset)
        offset = pull.offset
        held = turn.held
        if held is not None and not turn.is_last and held.filter is wanted:
            offset = held.scanned_offset  # what lies before was looked at with the same filter
        limits = self._limits_for(pull.count_max, config)
        result = store.reader.read(
            queue, offset, limits, wanted.accepts_entry, wanted.accepts_record
        )
        if result is not None:
            return self._finish(turn, group, topic, wanted, result)
        self._read_in_thread(turn, group, topic, wanted, _Read(queue, offset, limits))
        return None

    def _read_in_thread(
        self,
        turn: _Turn,
        group: GroupConfig,
        topic: TopicConfig,
        wanted: MessageFilter,
        read: _Read,
    ) -> None:
        """Wait for the disk elsewhere; the answer leaves when it is there."""
        if self._cold_reads.is_full:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, OVERLOAD_REMARK)
        if turn.held is not None:
            self._held.remove(turn.held)  # nobody else may begin a second read
        connection = turn.connection
        connection.requests_in_flight += 1

        def done(result: ReadResult | BaseException) -> None:
            connection.requests_in_flight -= 1

            def answer() -> Answer:
                if isinstance(result, BaseException):
                    raise result
                return self._finish(turn, group, topic, wanted, result)

            connection.answer_with(turn.command, answer)

        reader = self._store.reader
        self._cold_reads.start(
            lambda: reader.read_waiting(*read, wanted.accepts_entry, wanted.accepts_record), done
        )

    def _finish(
        self,
        turn: _Turn,
        group: GroupConfig,
        topic: TopicConfig,
        wanted: MessageFilter,
        result: ReadResult,
    ) -> Answer:
        pull, held, status = turn.pull, turn.held, result.status
        is_found = status is _FOUND
        self._statistics.note_get(is_found, result.count)
        if held is not None:
            if status is _NO_MATCH and not turn.is_last and self._stays_held(turn, wanted, result):
                return None
            self._held.remove(held)
        offsets = self._offsets
        offsets.note_pull(pull.group, pull.topic, pull.queue_id, result.next_offset)
        if held is None and pull.flag & COMMITS_OFFSET:
            offsets.commit(pull.group, pull.topic, pull.queue_id, pull.commit_offset)
        if is_found:
            self._statistics.count_get(
                pull.group, pull.topic, pull.queue_id, result.count, result.size
            )
            return [
                _FRAMES[status].head(turn.command, self._values(group, topic, result), result.size),
                *result.parts,
            ]
        if status in _EMPTY:
            frame = _EMPTY_MOVED_FRAME if pull.offset else _EMPTY_FRAME
            is_waiting = not pull.offset
        else:
            frame = _FRAMES[status]
            is_waiting = _CODES[status] is _NOT_FOUND
        if is_waiting and held is None and pull.flag & MAY_SUSPEND and self._holds(turn, wanted):
            return None
        return frame.head(turn.command, self._values(group, topic, result))

    def _values(
        self, group: GroupConfig, topic: TopicConfig, result: ReadResult
    ) -> tuple[int, ...]:
        suggested = MASTER_ID
        if self._config().slave_read_enable:
            suggested = group.broker_id_when_slow if result.is_behind_memory else group.broker_id
        return (
            suggested,
            result.next_offset,
            result.min_offset,
            result.max_offset,
            topic.system_flag,
            group.system_flag,
        )

    def _moved_by_reset(
        self, turn: _Turn, group: GroupConfig, topic: TopicConfig, offset: int
    ) -> Answer:
        pull = turn.pull
        if turn.held is not None:
            self._held.remove(turn.held)
        self._offsets.note_pull(pull.group, pull.topic, pull.queue_id, offset)
        if turn.held is None and pull.flag & COMMITS_OFFSET:
            self._offsets.commit(pull.group, pull.topic, pull.queue_id, pull.commit_offset)
        low = self._store.min_offset(pull.topic, pull.queue_id)
        high = self._store.max_offset(pull.topic, pull.queue_id)
        result = ReadResult(ReadStatus.OFFSET_TOO_SMALL, offset, low, high)
        return _RESET_FRAME.head(turn.command, self._values(group, topic, result))

    # Waiting for messages

    def _holds(self, turn: _Turn, wanted: MessageFilter) -> bool:
        """Keep a pull until messages come; False: it has to be answered now."""
        config, pull = self._config(), turn.pull
        wait_ms = pull.suspend_ms if config.long_polling_enable else config.short_polling_time_mills
        if wait_ms <= 0 or not self.may_hold:
            return False
        turn.command.fields = None  # they are read; there may be many that wait
        return self._held.hold(
            HeldPull(
                (pull.topic, pull.queue_id),
                turn.connection,
                turn,
                pull.offset,
                pull.offset,
                self._steady_ms() + min(wait_ms, HOLD_MAX_MS),
                wanted,
            )
        )

    def _stays_held(self, turn: _Turn, wanted: MessageFilter, result: ReadResult) -> bool:
        """What came is not for this pull: it waits on, from behind it. Unless there is more that
        was not looked at: then it is told where to go on."""
        held = turn.held
        if held is None or not self.may_hold or turn.connection.is_closed:
            return False
        if result.next_offset < self._store.max_offset(*held.key):
            return False
        held.scanned_offset = result.next_offset
        held.filter = wanted
        return held in self._held or self._held.hold(held)

    def _limits_for(self, count_max: int, config: BrokerConfig) -> ReadLimits:
        if config is not self._limits_of or len(self._limits) >= LIMITS_KEPT_MAX:
            self._limits = {}
            self._limits_of = config
        limits = self._limits.get(count_max)
        if limits is None:
            scanned = max(config.max_filter_message_size // QUEUE_ENTRY_SIZE, count_max)
            limits = self._limits[count_max] = ReadLimits(
                count_max=max(1, min(count_max, config.max_transfer_count_on_message_in_memory)),
                size_max_bytes=config.max_transfer_bytes_on_message_in_memory,
                count_max_on_disk=config.max_transfer_count_on_message_in_disk,
                size_max_bytes_on_disk=config.max_transfer_bytes_on_message_in_disk,
                scan_max=max(1, min(scanned, SCAN_MAX)),
            )
        return limits


def _forbidden(what: str, kind: str) -> RequestRejected:
    return RequestRejected(ResponseCode.NO_PERMISSION, f"{what} forbidden", {"forbiddenType": kind})
