"""What is remembered of pulls, and for how long. The checks themselves: handlers/test_pull.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emberq.broker import pull_terms
from emberq.broker.filters.choice import READ_INDEX
from emberq.broker.pull_terms import PullChecks, PullTerms
from emberq.errors import ProtocolError, RequestRejected
from emberq.model.subscription import SQL92_EXPRESSION, Subscription
from emberq.protocol.codes import RequestCode
from tests.support.stores import TOPIC
from tests.unit.broker.pulling import GROUP, Pulling, pulling_in

PULL = int(RequestCode.PULL_MESSAGE)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Pulling]:
    with pulling_in(tmp_path) as running:
        yield running


def checks_of(bench: Pulling) -> PullChecks:
    return bench.handlers._checks


def terms_of(bench: Pulling, **fields: str) -> PullTerms:
    return checks_of(bench).terms_of(
        bench.request(RequestCode.PULL_MESSAGE, **fields).fields or {}, PULL, "peer"
    )[0]


def test_pulls_that_differ_in_offsets_only_are_checked_once(bench: Pulling) -> None:
    first = terms_of(bench)

    again = bench.request(queueOffset="7", commitOffset="5").fields or {}

    assert checks_of(bench).terms_of(again, PULL, "peer") == (first, 7, 5)
    assert terms_of(bench, queueOffset="7") is first


@pytest.mark.parametrize(
    "fields",
    [
        {"queueId": "1"},
        {"maxMsgNums": "31"},
        {"sysFlag": "6"},
        {"suspendTimeoutMillis": "1"},
        {"subscription": "TagA"},
        {"expressionType": "TAG"},
        {"consumerGroup": "others"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_whatever_else_differs_is_another_pull(bench: Pulling, fields: dict[str, str]) -> None:
    assert terms_of(bench, **fields) is not terms_of(bench)


def test_a_lite_pull_is_another_one(bench: Pulling) -> None:
    fields = bench.request().fields or {}

    lite, _, _ = checks_of(bench).terms_of(fields, int(RequestCode.LITE_PULL_MESSAGE), "peer")

    assert lite is not terms_of(bench)


@pytest.mark.parametrize("offset", ["", "-1", "1x", "\u0661", "9" * 18, "9" * 19, "9" * 20])
def test_remembered_pulls_read_offsets_as_the_first_one_does(bench: Pulling, offset: str) -> None:
    checks = checks_of(bench)
    fields = bench.request(queueOffset=offset).fields or {}

    def outcome() -> Any:
        try:
            return checks.terms_of(fields, PULL, "peer")[1]
        except ProtocolError as error:
            return str(error)

    before = outcome()
    terms_of(bench)

    assert outcome() == before


def test_a_remembered_pull_without_an_offset_is_refused_as_the_first_one(bench: Pulling) -> None:
    terms_of(bench)
    fields = bench.request().fields or {}
    del fields["queueOffset"]

    with pytest.raises(ProtocolError):
        checks_of(bench).terms_of(fields, PULL, "peer")


def test_a_changed_topic_is_seen_at_once(bench: Pulling) -> None:
    terms_of(bench)

    bench.topics.put(replace(bench.topics.all()[TOPIC], permission=2))

    with pytest.raises(RequestRejected):
        terms_of(bench)


def test_a_changed_group_is_seen_at_once(bench: Pulling) -> None:
    terms_of(bench)

    bench.groups.disable_consume(GROUP)

    with pytest.raises(RequestRejected):
        terms_of(bench)


def test_a_changed_setting_is_seen_at_once(bench: Pulling) -> None:
    terms_of(bench)

    bench.set(broker_permission=2)

    with pytest.raises(RequestRejected):
        terms_of(bench)


def test_a_subscription_of_a_heartbeat_counts_until_the_next_one(bench: Pulling) -> None:
    bench.join(Subscription(topic=TOPIC, expression="*", version=1))
    before = terms_of(bench, sysFlag="0")
    assert terms_of(bench, sysFlag="0") is before

    bench.join(Subscription(topic=TOPIC, expression="TagB", tags=["TagB"], version=2))

    assert terms_of(bench, sysFlag="0").filter is not before.filter


def test_what_is_forbidden_to_a_group_is_seen_at_once(bench: Pulling) -> None:
    bench.join(Subscription(topic=TOPIC, expression="*", version=1))
    terms_of(bench, sysFlag="0")

    bench.groups.set_forbidden(GROUP, TOPIC, READ_INDEX, True)

    with pytest.raises(RequestRejected):
        terms_of(bench, sysFlag="0")


def test_a_group_that_left_is_seen_at_once(bench: Pulling) -> None:
    bench.join(Subscription(topic=TOPIC, expression="*", version=1))
    terms_of(bench, sysFlag="0")

    bench.consumers.unregister(GROUP, "connection")

    with pytest.raises(RequestRejected):
        terms_of(bench, sysFlag="0")


def test_sql_of_heartbeats_is_looked_up_every_time(bench: Pulling) -> None:
    bench.set(enable_property_filter=True)
    bench.join(
        Subscription(topic=TOPIC, expression="a > 1", expression_type=SQL92_EXPRESSION, version=1)
    )

    assert terms_of(bench, sysFlag="0") is not terms_of(bench, sysFlag="0")


def test_only_so_many_are_remembered(bench: Pulling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_terms, "REMEMBERED_MAX", 3)

    for count in range(10):
        terms_of(bench, maxMsgNums=str(count))

    assert len(checks_of(bench)._remembered) <= 3


def test_very_long_fields_are_not_remembered(bench: Pulling) -> None:
    long = {"queueId": "0" * pull_terms.REMEMBERED_LENGTH_MAX}

    assert terms_of(bench, **long) is not terms_of(bench, **long)


def test_a_carried_subscription_is_known_and_repeated_after_forgetting(bench: Pulling) -> None:
    terms_of(bench, subscription="TagA")
    known = bench.consumers.subscription(GROUP, TOPIC)
    assert known is not None
    assert (known.expression, known.version) == ("TagA", bench.clock())
    bench.consumers.expire_carried(bench.clock() + 1, 0)

    terms_of(bench, subscription="TagA")
    assert bench.consumers.subscription(GROUP, TOPIC) is None
    checks_of(bench).forget()
    terms_of(bench, subscription="TagA")

    assert bench.consumers.subscription(GROUP, TOPIC) is not None
