"""What a round does with a half message that nobody has ended."""

from typing import Any

import pytest

from emberq.broker.transactions.verdicts import (
    CheckLimits,
    Verdict,
    immunity_ms,
    is_too_late,
    judge,
)
from emberq.record.decode import decode_record
from emberq.record.encode import encode_record
from emberq.record.record import Record

NOW_MS = 1_700_000_000_000
LIMITS = CheckLimits(timeout_ms=6_000, check_max=15, kept_ms=72 * 3_600_000)
IMMUNE = "CHECK_IMMUNITY_TIME_IN_SECONDS"


def half(age_ms: int, stored_ms_ago: int | None = None) -> Record:
    stored_at_ms = NOW_MS - (age_ms if stored_ms_ago is None else stored_ms_ago)
    return decode_record(
        encode_record("T", b"", born_at_ms=NOW_MS - age_ms, stored_at_ms=stored_at_ms)
    )


@pytest.mark.parametrize(
    ("age_ms", "properties", "verdict"),
    [
        (5_999, {}, Verdict.STOP),
        (6_000, {}, Verdict.ASK),
        (20_000, {"TRANSACTION_CHECK_TIMES": "14"}, Verdict.ASK),
        (20_000, {"TRANSACTION_CHECK_TIMES": "15"}, Verdict.PARK),
        (20_000, {"TRANSACTION_CHECK_TIMES": "many"}, Verdict.ASK),
        (72 * 3_600_000, {}, Verdict.ASK),
        (72 * 3_600_000 + 1, {}, Verdict.PARK),
        (9_999, {IMMUNE: "10"}, Verdict.PUT_BACK),
        (10_000, {IMMUNE: "10"}, Verdict.ASK),
        (5_999, {IMMUNE: "1"}, Verdict.PUT_BACK),  # never shorter than the timeout
        (6_000, {IMMUNE: "soon"}, Verdict.ASK),
        (100, {IMMUNE: "-5"}, Verdict.PUT_BACK),
    ],
)
def test_age_and_properties_decide(age_ms: int, properties: Any, verdict: Verdict) -> None:
    assert judge(half(age_ms), properties, NOW_MS, NOW_MS, LIMITS) is verdict


def test_a_round_ends_at_what_was_stored_after_it_began() -> None:
    assert judge(half(60_000, stored_ms_ago=0), {}, NOW_MS, NOW_MS, LIMITS) is Verdict.STOP


def test_a_message_born_in_the_future_is_asked_about() -> None:
    assert judge(half(-60_000, stored_ms_ago=1), {}, NOW_MS, NOW_MS, LIMITS) is Verdict.ASK


def test_immunity_is_what_a_message_says() -> None:
    assert immunity_ms({}, 6_000) is None
    assert immunity_ms({IMMUNE: "900"}, 6_000) == 900_000
    assert immunity_ms({IMMUNE: "9" * 16}, 6_000) == 6_000


def test_after_its_own_time_only_an_answer_ends_a_message() -> None:
    assert is_too_late(half(10_001), {IMMUNE: "10"}, NOW_MS, 6_000)
    assert not is_too_late(half(10_000), {IMMUNE: "10"}, NOW_MS, 6_000)
    assert not is_too_late(half(10_001), {}, NOW_MS, 6_000)
