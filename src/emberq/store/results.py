"""What the store answers: outcomes of puts and reads."""

from enum import Enum, auto

from msgspec import Struct

from emberq.record.layout import BytesLike


class PutStatus(Enum):
    """The outcome of a put; the first four mean that the message is in the log."""

    PUT_OK = auto()
    FLUSH_DISK_TIMEOUT = auto()
    FLUSH_SLAVE_TIMEOUT = auto()
    SLAVE_NOT_AVAILABLE = auto()
    SERVICE_NOT_AVAILABLE = auto()
    CREATE_MAPPED_FILE_FAILED = auto()
    MESSAGE_ILLEGAL = auto()
    PROPERTIES_SIZE_EXCEEDED = auto()
    OS_PAGE_CACHE_BUSY = auto()
    WHEEL_TIMER_MSG_ILLEGAL = auto()
    WHEEL_TIMER_FLOW_CONTROL = auto()
    WHEEL_TIMER_NOT_ENABLE = auto()
    UNKNOWN_ERROR = auto()

    @property
    def is_stored(self) -> bool:
        return self in _STORED


_STORED = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)


class PutResult(Struct, frozen=True, gc=False):
    """Where a message went. A batch names its first message; `count` follow one another."""

    status: PutStatus
    log_offset: int = -1
    queue_offset: int = -1
    stored_at_ms: int = 0
    # Log offset behind the message: durable once the log is flushed up to here.
    end_offset: int = -1
    count: int = 1
    reason: str = ""
    # Log offsets of a batch's messages, in order.
    log_offsets: tuple[int, ...] = ()


class ReadStatus(Enum):
    FOUND = auto()
    NO_MATCHED_MESSAGE = auto()
    MESSAGE_WAS_REMOVING = auto()
    OFFSET_FOUND_NULL = auto()
    OFFSET_OVERFLOW_BADLY = auto()
    OFFSET_OVERFLOW_ONE = auto()
    OFFSET_TOO_SMALL = auto()
    NO_MATCHED_LOGIC_QUEUE = auto()
    NO_MESSAGE_IN_QUEUE = auto()


class ReadResult(Struct, frozen=True, gc=False):
    """Messages of a queue as they lie in the log, and where to read on."""

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    # Whole records, back to back within a part; parts may be views of mapped files.
    parts: tuple[BytesLike, ...] = ()
    count: int = 0
    size: int = 0
    # The reader is so far behind that a slave should serve it.
    is_behind_memory: bool = False
    # Behind those of the entries looked at whose messages are deleted: the queue still names them
    # until retention comes to it. 0: there are none.
    removed_to: int = 0
