"""`emberq.broker.timed_messages`: which messages may wait, in the official order of checks."""

import pytest

from emberq.broker.config import BrokerConfig
from emberq.broker.timed_messages import TimedMessages, refusal_remark
from emberq.store.results import PutStatus

NOW_MS = 1_700_000_000_123


def placed(
    properties: dict[str, str], *, count: int = 0, chance: float = 0.0, **config: int
) -> int | PutStatus | None:
    timed = TimedMessages(
        lambda: BrokerConfig(**config),  # type: ignore[arg-type]  # numbers only
        lambda _: count,
        1000,
        lambda: NOW_MS,
        lambda: chance,
    )
    return timed.place(properties)


@pytest.mark.parametrize(
    ("properties", "slot_ms"),
    [
        ({"TIMER_DELIVER_MS": "1700000010000"}, 1_700_000_009_000),
        ({"TIMER_DELIVER_MS": "1700000010001"}, 1_700_000_010_000),
        ({"TIMER_DELAY_MS": "900"}, 1_700_000_001_000),
        ({"TIMER_DELAY_SEC": "2"}, 1_700_000_002_000),
        ({"TIMER_DELIVER_MS": str(NOW_MS)}, None),
        ({"TIMER_DELIVER_MS": "0"}, None),
        ({"TIMER_DELAY_MS": "-1"}, None),
        ({"TIMER_DELAY_SEC": "9223372036854775807"}, None),  # it wraps, as in official brokers
    ],
)
def test_a_message_waits_in_the_slot_of_its_time_or_not_at_all(
    properties: dict[str, str], slot_ms: int | None
) -> None:
    assert placed(properties) == slot_ms


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELIVER_MS": "soon"},
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELIVER_MS": "9223372036854775807"},
        {"TIMER_DELAY_MS": "0", "TIMER_DEL_UNIQKEY": "k"},
    ],
)
def test_times_that_cannot_be_are_illegal(properties: dict[str, str]) -> None:
    assert placed(properties) is PutStatus.WHEEL_TIMER_MSG_ILLEGAL


def test_the_longest_delay_is_allowed() -> None:
    assert isinstance(placed({"TIMER_DELAY_SEC": "10"}, timer_max_delay_sec=10), int)
    status = placed({"TIMER_DELAY_SEC": "11"}, timer_max_delay_sec=10)
    assert status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL


@pytest.mark.parametrize(
    ("count", "chance", "is_refused"),
    [
        (10, 0.99, False),
        (11, 0.05, False),
        (11, 0.5, True),
        (19, 0.5, False),
        (20, 0.0, True),
        (99, 0.0, True),
    ],
)
def test_a_crowded_slot_takes_no_more(count: int, chance: float, is_refused: bool) -> None:
    found = placed(
        {"TIMER_DELAY_SEC": "5"}, count=count, chance=chance, timer_congest_num_each_slot=10
    )

    assert (found is PutStatus.WHEEL_TIMER_FLOW_CONTROL) is is_refused


def test_without_a_wheel_nothing_waits() -> None:
    timed = TimedMessages(BrokerConfig, None, 1000, lambda: NOW_MS)

    assert timed.place({"TIMER_DELAY_MS": "0"}) is PutStatus.WHEEL_TIMER_NOT_ENABLE


def test_only_refused_times_have_words_of_their_own() -> None:
    assert refusal_remark(PutStatus.MESSAGE_ILLEGAL, BrokerConfig()) is None
    remark = refusal_remark(
        PutStatus.WHEEL_TIMER_FLOW_CONTROL, BrokerConfig(timer_congest_num_each_slot=7)
    )
    assert remark is not None
    assert "max num limit is 14 or the current value is greater than 7 and less than 14" in remark
