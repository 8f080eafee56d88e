"""Message ids: the offset id that a broker gives, and the unique key that a producer makes.

The formats are docs/formats/message-ids.md.
"""

import struct
import time
from collections.abc import Callable
from itertools import count, islice

from emberq.errors import RecordError
from emberq.record.host import PackedHost
from emberq.record.layout import IPV4_HOST_SIZE, IPV6_HOST_SIZE, TIMESTAMP
from emberq.record.properties import find_stored_property
from emberq.record.property_names import UNIQUE_KEY
from emberq.record.record import Record

_LOG_OFFSET_SIZE = 8
_UNIQUE_KEY_IPV4_SIZE = 16
_UNIQUE_KEY_IPV6_SIZE = 28
_SPAN_END = -2  # the counter is behind the span
_SPAN_START = -6
# A clock that steps back a little across the month's start must not give a giant span.
_CLOCK_STEP_BACK_MS_MAX = 1_000_000
_UNIQUE_KEY_NAME = UNIQUE_KEY.encode()


def make_offset_id(store_host: PackedHost, log_offset: int) -> str:
    """Return the id under which a broker finds a record: its address and the log offset.

    Raises:
        RecordError: the offset is no signed 64-bit number.
    """
    try:
        return (store_host + TIMESTAMP.pack(log_offset)).hex().upper()
    except struct.error as error:
        raise RecordError(f"no log offset: {log_offset}") from error


def parse_offset_id(text: str) -> tuple[PackedHost, int]:
    """Return the store host and the log offset of an offset id.

    Raises:
        RecordError: the text is no offset id.
    """
    packed = _from_hex(text)
    host = packed[:-_LOG_OFFSET_SIZE]
    if len(host) not in (IPV4_HOST_SIZE, IPV6_HOST_SIZE):
        raise RecordError(f"no offset id: {text[:64]!r}")
    return PackedHost(host), int.from_bytes(packed[-_LOG_OFFSET_SIZE:], "big", signed=True)


def visible_message_id(record: Record) -> str:
    """Return the id that consumers show: the producer's unique key, else the offset id."""
    unique_key = find_stored_property(record.properties, _UNIQUE_KEY_NAME)
    if unique_key is not None:
        return unique_key.decode("utf-8", "replace")
    return make_offset_id(record.store_host, record.log_offset)


def month_start_ms(moment_ms: int, months_later: int = 0) -> int:
    """Return the first millisecond of the moment's month in the local time zone."""
    moment = time.localtime(moment_ms // 1000)
    start = (moment.tm_year, moment.tm_mon + months_later, 1, 0, 0, 0, 0, 0, -1)
    return int(time.mktime(start)) * 1000


class UniqueKeyGenerator:
    """Makes the ids of one producer process; safe to share between threads.

    After a fork the child needs its own: the process id is part of every key.
    """

    def __init__(
        self,
        ip: bytes,
        process_id: int,
        process_constant: int,
        now_ms: Callable[[], int],
        month_start_ms: Callable[[int, int], int] = month_start_ms,
    ) -> None:
        """Take what makes keys unique.

        Args:
            ip: 4 or 16 bytes of the client's address.
            process_constant: any 32-bit number that stays the same while the process lives.
            month_start_ms: like the function of this module, which uses the local time zone.
        """
        if len(ip) not in (4, 16):
            raise RecordError(f"no IP address: {len(ip)} bytes")
        process = f"{process_id & 0xFFFF:04X}{process_constant & 0xFFFF_FFFF:08X}"
        self._prefix = ip.hex().upper() + process
        self._now_ms = now_ms
        self._month_start_ms = month_start_ms
        self._counter = count()
        # Both bounds in one tuple, so that no thread sees the start of one month with the end of
        # another; a moment and its text likewise.
        self._month = (0, 0)
        self._latest = (-1, "")

    def next(self) -> str:
        """Return a new key: 32 characters with an IPv4 address, 56 with IPv6."""
        now_ms = self._now_ms()
        at_ms, text = self._latest
        if now_ms != at_ms:
            text = self._begin_of(now_ms)
            self._latest = (now_ms, text)
        return f"{text}{next(self._counter) & 0xFFFF:04X}"

    def take(self, count: int) -> list[str]:
        """Several new keys, in less time than one by one."""
        text, numbers = self.take_numbers(count)
        return [f"{text}{number & 0xFFFF:04X}" for number in numbers]

    def take_numbers(self, count: int) -> tuple[str, list[int]]:
        """What several new keys begin with, and the numbers whose last 16 bits end them."""
        return self._begin_of(self._now_ms()), list(islice(self._counter, count))

    def _begin_of(self, now_ms: int) -> str:
        """What all keys of one millisecond have in common."""
        start_ms, end_ms = self._month
        if not start_ms - _CLOCK_STEP_BACK_MS_MAX < now_ms < end_ms:
            start_ms, end_ms = self._month = (
                self._month_start_ms(now_ms, 0),
                self._month_start_ms(now_ms, 1),
            )
        # A month has more milliseconds than a signed 32-bit number: the span is unsigned.
        span_ms = max(now_ms - start_ms, 0)
        return f"{self._prefix}{span_ms:08X}"


def unique_key_time_ms(
    unique_key: str,
    now_ms: int,
    month_start_ms: Callable[[int, int], int] = month_start_ms,
) -> int:
    """Return about when a unique key was made: right if it is younger than a month.

    Raises:
        RecordError: the text is no unique key.
    """
    packed = _from_hex(unique_key)
    if len(packed) not in (_UNIQUE_KEY_IPV4_SIZE, _UNIQUE_KEY_IPV6_SIZE):
        raise RecordError(f"no unique key: {unique_key[:64]!r}")
    span_ms = int.from_bytes(packed[_SPAN_START:_SPAN_END], "big")
    made_at_ms = month_start_ms(now_ms, 0) + span_ms
    return made_at_ms if made_at_ms < now_ms else month_start_ms(now_ms, -1) + span_ms


def _from_hex(text: str) -> bytes:
    try:
        packed = bytes.fromhex(text)
    except ValueError:
        raise RecordError(f"no hexadecimal id: {text[:64]!r}") from None
    if len(packed) * 2 != len(text):  # `fromhex` skips blanks
        raise RecordError(f"no hexadecimal id: {text[:64]!r}")
    return packed
