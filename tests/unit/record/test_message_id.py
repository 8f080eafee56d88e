import time
from calendar import timegm
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from emberq.errors import RecordError
from emberq.record.decode import decode_record
from emberq.record.encode import encode_record
from emberq.record.host import pack_host
from emberq.record.message_id import (
    UniqueKeyGenerator,
    make_offset_id,
    month_start_ms,
    parse_offset_id,
    unique_key_time_ms,
    visible_message_id,
)
from tests.golden.record.vectors import OFFICIAL_4_9_8, OFFICIAL_5_5_0

IP = bytes((10, 1, 1, 7))
DAY_MS = 86_400_000


def utc_ms(year: int, month: int, day: int, hour: int = 0) -> int:
    return timegm((year, month, day, hour, 0, 0)) * 1000


@contextmanager
def time_zone(name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(autouse=True)
def _in_utc() -> Iterator[None]:
    with time_zone("UTC"):
        yield


class Clock:
    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


@pytest.mark.parametrize(
    ("ip", "port", "offset", "expected"),
    [
        ("10.0.0.2", 10911, 1000, "0A00000200002A9F00000000000003E8"),
        ("10.1.1.7", 10911, 4660, "0A01010700002A9F0000000000001234"),
        ("10.0.0.2", 10911, 1000, OFFICIAL_5_5_0["offset-id-ipv4"]),
        ("2001:db8::1", 10911, 4660, OFFICIAL_5_5_0["offset-id-ipv6"]),
    ],
)
def test_offset_ids_are_the_official_ones(ip: str, port: int, offset: int, expected: str) -> None:
    assert make_offset_id(pack_host(ip, port), offset) == expected
    assert parse_offset_id(expected) == (pack_host(ip, port), offset)
    assert parse_offset_id(expected.lower()) == (pack_host(ip, port), offset)


@pytest.mark.parametrize(
    "text", ["", "0A", "0A01010700002A9F00000000000012", "zz" * 16, "0A " * 16, "0A" * 40, "é" * 32]
)
def test_text_that_is_no_offset_id_is_a_record_error(text: str) -> None:
    with pytest.raises(RecordError, match="id"):
        parse_offset_id(text)


def test_an_offset_beyond_64_bits_is_a_record_error() -> None:
    with pytest.raises(RecordError, match="no log offset"):
        make_offset_id(pack_host("10.0.0.1", 1), 1 << 63)


def test_consumers_see_the_unique_key_and_else_the_offset_id() -> None:
    keyless = decode_record(bytes.fromhex(OFFICIAL_4_9_8["record"]))
    keyed = decode_record(encode_record("T", b"", b"UNIQ_KEY\x010A0101\x02"))

    assert visible_message_id(keyless) == "0A00000200002A9F00000000000003E8"
    assert visible_message_id(keyed) == "0A0101"


def test_a_unique_key_holds_address_process_constant_span_and_counter() -> None:
    clock = Clock(utc_ms(2024, 5, 1) + 0x1234)
    generator = UniqueKeyGenerator(IP, 0x1_ABCD, 0x0102_0304, clock)

    assert generator.next() == "0A010107ABCD01020304000012340000"
    assert generator.next() == "0A010107ABCD01020304000012340001"


def test_keys_taken_together_are_those_taken_one_by_one() -> None:
    clock = Clock(utc_ms(2024, 5, 2))
    together, alone = (UniqueKeyGenerator(IP, 1, 1, clock) for _ in range(2))

    taken = [*together.take(3), together.next(), *together.take(0)]

    assert taken == [alone.next() for _ in range(4)]


def test_a_unique_key_with_ipv6_has_56_characters() -> None:
    generator = UniqueKeyGenerator(bytes(range(16)), 1, -1, Clock(utc_ms(2024, 5, 2)))

    key = generator.next()

    assert len(key) == 56
    assert key.startswith("000102030405060708090A0B0C0D0E0F0001FFFFFFFF")


def test_the_counter_wraps_after_16_bits() -> None:
    generator = UniqueKeyGenerator(IP, 1, 1, Clock(utc_ms(2024, 5, 2)))

    keys = [generator.next() for _ in range(0x1_0001)]

    assert keys[0xFFFF].endswith("FFFF")
    assert keys[0x1_0000] == keys[0]


def test_a_key_of_the_last_day_of_a_month_fits_although_the_span_has_32_bits() -> None:
    clock = Clock(utc_ms(2024, 5, 31, 23))
    key = UniqueKeyGenerator(IP, 1, 1, clock).next()

    assert int(key[20:28], 16) == 30 * DAY_MS + 23 * 3_600_000 > 1 << 31
    assert unique_key_time_ms(key, clock.now_ms + 1) == clock.now_ms


def test_the_span_starts_again_with_each_month() -> None:
    clock = Clock(utc_ms(2024, 12, 31))
    generator = UniqueKeyGenerator(IP, 1, 1, clock)
    generator.next()

    clock.now_ms = utc_ms(2025, 1, 1) + 5

    assert generator.next()[20:28] == "00000005"


def test_a_clock_that_steps_back_over_the_start_of_the_month_gives_span_0() -> None:
    clock = Clock(utc_ms(2024, 5, 1))
    generator = UniqueKeyGenerator(IP, 1, 1, clock)
    generator.next()

    clock.now_ms -= 500

    assert generator.next()[20:28] == "00000000"


def test_a_clock_that_steps_back_a_month_gives_the_span_of_that_month() -> None:
    clock = Clock(utc_ms(2024, 5, 1))
    generator = UniqueKeyGenerator(IP, 1, 1, clock)
    generator.next()

    clock.now_ms = utc_ms(2024, 4, 2)

    assert int(generator.next()[20:28], 16) == DAY_MS


@pytest.mark.parametrize(
    ("made", "read"),
    [
        (utc_ms(2024, 5, 10), utc_ms(2024, 5, 20)),
        (utc_ms(2024, 5, 20), utc_ms(2024, 6, 10)),
        (utc_ms(2024, 12, 20), utc_ms(2025, 1, 10)),
    ],
)
def test_the_time_of_a_young_key_is_found_again(made: int, read: int) -> None:
    key = UniqueKeyGenerator(IP, 1, 1, Clock(made)).next()

    assert unique_key_time_ms(key, read) == made


@pytest.mark.parametrize("key", ["", "0A01", "x" * 32, "0A" * 20])
def test_text_that_is_no_unique_key_is_a_record_error(key: str) -> None:
    with pytest.raises(RecordError):
        unique_key_time_ms(key, utc_ms(2024, 5, 1))


def test_months_start_in_the_local_time_zone() -> None:
    with time_zone("CET-1CEST,M3.5.0,M10.5.0/3"):
        assert month_start_ms(utc_ms(2024, 5, 10)) == utc_ms(2024, 4, 30, 22)
        assert month_start_ms(utc_ms(2024, 1, 10), -1) == utc_ms(2023, 11, 30, 23)


def test_an_address_of_another_size_is_a_record_error() -> None:
    with pytest.raises(RecordError, match="5 bytes"):
        UniqueKeyGenerator(bytes(5), 1, 1, Clock(0))
