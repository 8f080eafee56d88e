"""Pulls: every status, every refusal, waiting, and what is counted."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emberq.broker import pull_terms
from emberq.broker.filters.choice import READ_INDEX
from emberq.errors import ProtocolError
from emberq.model.group import GroupConfig
from emberq.model.subscription import SQL92_EXPRESSION, MessageModel, Subscription
from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import HeaderEncoding
from tests.support.stores import TOPIC, put, put_many
from tests.support.waiting import DEADLINE_S, until
from tests.unit.broker.pulling import (
    GROUP,
    Pulling,
    bodies_of,
    field,
    pulling_in,
    put_with,
    records_of,
)

LITE = RequestCode.LITE_PULL_MESSAGE
FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Pulling]:
    with pulling_in(tmp_path, enable_property_filter=True) as bench:
        yield bench


def sql(expression: str, version: int = 1) -> Subscription:
    return Subscription(
        topic=TOPIC, expression=expression, expression_type=SQL92_EXPRESSION, version=version
    )


def tags(*codes: int, version: int = 1) -> Subscription:
    return Subscription(topic=TOPIC, expression="x", tag_codes=list(codes), version=version)


# What a queue answers


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, LITE])
def test_messages_come_as_they_lie_in_the_log(bench: Pulling, code: RequestCode) -> None:
    put_many(bench.store, 3)

    response = bench.pull(code, queueOffset="1")

    assert (response.code, response.remark) == (0, "FOUND")
    assert response.fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "3",
        "minOffset": "0",
        "maxOffset": "3",
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
    assert [record.queue_offset for record in records_of(response)] == [1, 2]


def test_a_binary_request_gets_a_binary_answer(bench: Pulling) -> None:
    put_many(bench.store, 2)
    request = bench.request()
    request.encoding = HeaderEncoding.BINARY

    response = bench.serve(request)

    assert response is not None
    assert response.encoding is HeaderEncoding.BINARY
    assert field(response, "nextBeginOffset") == 2
    assert len(records_of(response)) == 2


@pytest.mark.parametrize(
    ("offset", "code", "remark", "next_offset"),
    [
        ("3", 19, "OFFSET_OVERFLOW_ONE", 3),
        ("4", 21, "OFFSET_OVERFLOW_BADLY", 3),
        ("-1", 21, "OFFSET_TOO_SMALL", 0),
    ],
)
def test_offsets_outside_the_queue(
    bench: Pulling, offset: str, code: int, remark: str, next_offset: int
) -> None:
    put_many(bench.store, 3)

    response = bench.pull(queueOffset=offset)

    assert (response.code, response.remark) == (code, remark)
    assert field(response, "nextBeginOffset") == next_offset
    assert (field(response, "minOffset"), field(response, "maxOffset")) == (0, 3)


@pytest.mark.parametrize(("offset", "code"), [("0", 19), ("1", 21), ("-1", 21)])
def test_a_queue_without_messages(bench: Pulling, offset: str, code: int) -> None:
    response = bench.pull(queueOffset=offset)

    assert (response.code, response.remark) == (code, "NO_MESSAGE_IN_QUEUE")
    assert field(response, "nextBeginOffset") == 0


@pytest.mark.parametrize(("asked", "count"), [("1", 1), ("0", 1), ("-3", 1), ("99", 32)])
def test_the_number_of_messages(bench: Pulling, asked: str, count: int) -> None:
    put_many(bench.store, 40)

    response = bench.pull(maxMsgNums=asked)

    assert len(records_of(response)) == field(response, "nextBeginOffset") == count


def test_bytes_limit_an_answer_but_one_message_always_comes(bench: Pulling) -> None:
    bench.set(max_transfer_bytes_on_message_in_memory=2_500)
    for _ in range(3):
        put(bench.store, bytes(1_000))

    assert len(records_of(bench.pull())) == 2
    bench.set(max_transfer_bytes_on_message_in_memory=1)
    assert len(records_of(bench.pull())) == 1


def test_readers_far_behind_get_less_and_hear_of_the_slave(bench: Pulling) -> None:
    put_many(bench.store, 20)
    bench.store.reader.memory_bytes = 1
    bench.set(slave_read_enable=True)

    behind = bench.pull()
    bench.store.reader.memory_bytes = 1 << 40
    near = bench.pull()

    assert len(records_of(behind)) == 8
    assert field(behind, "suggestWhichBrokerId") == 1
    assert field(near, "suggestWhichBrokerId") == 0


def test_a_filter_looks_no_further_than_the_limit(bench: Pulling) -> None:
    bench.set(max_filter_message_size=100)
    put_many(bench.store, 9)

    response = bench.pull(subscription="Other", maxMsgNums="2")

    assert (response.code, response.remark) == (20, "NO_MATCHED_MESSAGE")
    assert field(response, "nextBeginOffset") == 5


def test_asking_for_very_many_messages_has_a_limit(
    bench: Pulling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_terms, "SCAN_MAX", 40)
    put_many(bench.store, 50)

    response = bench.pull(maxMsgNums="2147483647", subscription="Other")

    assert field(response, "nextBeginOffset") == 40


def test_a_pending_reset_moves_the_reader(bench: Pulling) -> None:
    put_many(bench.store, 5)
    bench.groups.find(GROUP)
    bench.offsets.assign_reset(GROUP, TOPIC, 0, 2)

    response = bench.pull(queueOffset="4")

    assert (response.code, response.remark) == (21, "OFFSET_RESET")
    assert [field(response, name) for name in ("nextBeginOffset", "minOffset", "maxOffset")] == [
        *(2, 0, 5)
    ]
    assert bench.pull(queueOffset="4").code == 0


def test_without_the_feature_a_reset_is_forgotten(bench: Pulling) -> None:
    put_many(bench.store, 5)
    bench.set(use_server_side_reset_offset=False)
    bench.offsets.assign_reset(GROUP, TOPIC, 0, 2)

    assert bench.pull(queueOffset="4").code == 0
    assert not bench.offsets.has_reset(GROUP, TOPIC, 0)


# Refusals


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"topic": "No"}, 17, f"topic[No] not exist, apply first please! {FAQ}"),
        ({"consumerGroup": "a/b"}, 26, f"subscription group [a/b] does not exist, {FAQ}"),
        (
            {"queueId": "4"},
            29,
            f"queueId[4] is illegal, topic:[{TOPIC}] topicConfig.readQueueNums:[4] "
            "consumer:[/192.0.2.7:40000]",
        ),
        ({"subscription": "||"}, 23, "parse the consumer's subscription failed"),
        (
            {"subscription": "a !=", "expressionType": "SQL92"},
            23,
            "parse the consumer's subscription failed",
        ),
        ({"sysFlag": "0"}, 24, f"the consumer's group info not exist{FAQ}"),
    ],
)
def test_refusals(bench: Pulling, fields: dict[str, str], code: int, remark: str) -> None:
    response = bench.pull(RequestCode.PULL_MESSAGE, **fields)

    assert (response.code, response.remark) == (code, remark)
    assert response.fields == {}


@pytest.mark.parametrize(
    ("change", "remark", "kind"),
    [
        ({"broker_permission": 2}, "the broker[10.1.2.3] pulling message is forbidden", "1"),
        (
            {"lite_pull_message_enable": False},
            "the broker[10.1.2.3] for lite pull consumer is forbidden",
            "1",
        ),
    ],
)
def test_a_broker_that_may_not_be_read(
    bench: Pulling, change: dict[str, Any], remark: str, kind: str
) -> None:
    bench.set(**change)

    response = bench.pull(LITE)

    assert (response.code, response.remark) == (16, remark)
    assert response.fields == {"forbiddenType": kind}


def test_groups_and_topics_that_may_not_be_read(bench: Pulling) -> None:
    bench.groups.put(GroupConfig(name="off", is_consume_enabled=False))
    bench.topics.put(TopicConfig(name="Deaf", permission=2))

    of_group = bench.pull(consumerGroup="off")
    of_topic = bench.pull(topic="Deaf")

    assert (of_group.code, of_group.fields) == (16, {"forbiddenType": "2"})
    assert of_group.remark == "subscription group no permission, off"
    assert (of_topic.code, of_topic.fields) == (16, {"forbiddenType": "3"})
    assert of_topic.remark == "the topic[Deaf] pulling message is forbidden"


def test_missing_fields_are_refused_unless_no_flag_asks_for_them(bench: Pulling) -> None:
    request = bench.request()
    assert request.fields is not None
    for name in ("commitOffset", "suspendTimeoutMillis", "subVersion"):
        del request.fields[name]

    response = bench.serve(request)

    assert response is not None
    assert response.code == 19
    del request.fields["queueOffset"]
    with pytest.raises(ProtocolError, match="queueOffset"):
        bench.serve(request)


# Subscriptions


def test_the_subscription_of_the_last_heartbeat_counts(bench: Pulling) -> None:
    put(bench.store, b"a", tags="TagA")
    put(bench.store, b"b", tags="TagB")
    bench.join(tags(2598919, version=5))

    assert bodies_of(bench.pull(sysFlag="0", subVersion="5")) == [b"a"]
    newer = bench.pull(sysFlag="0", subVersion="6")
    assert (newer.code, newer.remark) == (25, "the consumer's subscription not latest")
    bench.join(tags(2598920, version=6))
    assert bodies_of(bench.pull(sysFlag="0", subVersion="6")) == [b"b"]
    bench.topics.create_if_absent("Other", 4)
    other = bench.pull(sysFlag="0", topic="Other")
    assert (other.code, other.remark) == (24, f"the consumer's subscription not exist{FAQ}")


def test_sql_of_heartbeats(bench: Pulling) -> None:
    put_with(bench.store, b"1", {"a": "1"})
    put_with(bench.store, b"9", {"a": "9"})
    bench.join(sql("a > 5", 3))

    assert bodies_of(bench.pull(sysFlag="0", subVersion="3")) == [b"9"]
    assert bodies_of(bench.pull(sysFlag="0", subVersion="3")) == [b"9"]
    bench.filters.register(GROUP, [sql("a !", 4)], 1)
    missing = bench.pull(sysFlag="0", subVersion="3")
    assert missing.code == 27
    assert missing.remark == (
        "The broker's consumer filter data is not exist!Your expression may be wrong!"
    )


def test_sql_filters_that_are_older_than_the_pull(bench: Pulling) -> None:
    bench.join(sql("a > 5", 3))
    found = bench.filters.get(TOPIC, GROUP)
    assert found is not None
    found.version = 2

    response = bench.pull(sysFlag="0", subVersion="3")

    assert response.code == 28
    assert response.remark == "the consumer's consumer filter data not latest"


def test_sql_that_is_switched_off(bench: Pulling) -> None:
    bench.set(enable_property_filter=False)
    bench.join(sql("a > 5"))
    remark = "The broker does not support consumer to filter message by SQL92"

    of_heartbeat = bench.pull(sysFlag="0")
    carried = bench.pull(subscription="a > 5", expressionType="SQL92")

    assert (of_heartbeat.code, of_heartbeat.remark) == (1, remark)
    assert (carried.code, carried.remark) == (1, remark)


def test_sql_counts_what_it_finds_and_says_where_it_stopped(bench: Pulling) -> None:
    for number in range(10):
        put_with(bench.store, b"%d" % number, {"a": str(number % 2)})

    response = bench.pull(subscription="a = 1", expressionType="SQL92", maxMsgNums="3")

    assert bodies_of(response) == [b"1", b"3", b"5"]
    assert field(response, "nextBeginOffset") == 6
    none = bench.pull(subscription="a = 7", expressionType="SQL92")
    assert (none.code, field(none, "nextBeginOffset")) == (20, 10)


def test_retries_pass_the_filter_of_their_topic_if_asked(bench: Pulling) -> None:
    retry = f"%RETRY%{GROUP}"
    bench.topics.create_if_absent(retry, 1)
    put_with(bench.store, b"1", {"a": "1", "RETRY_TOPIC": TOPIC}, retry)
    bench.join(sql("a > 5"), Subscription(topic=retry, expression="*", version=1))

    assert bench.pull(topic=retry, sysFlag="0").code == 0
    assert bench.pull(topic=retry).code == 0
    bench.set(filter_support_retry=True)
    assert bench.pull(topic=retry, sysFlag="0").code == 20
    assert bench.pull(topic=retry).code == 20


def test_broadcasting_and_forbidden_topics(bench: Pulling) -> None:
    put_many(bench.store, 1)
    bench.groups.put(GroupConfig(name=GROUP, is_broadcast_enabled=False))
    bench.join(Subscription(topic=TOPIC, expression="*"), model=MessageModel.BROADCASTING)

    broadcast = bench.pull(sysFlag="0")
    assert (broadcast.code, broadcast.fields) == (16, {"forbiddenType": "4"})
    assert broadcast.remark == f"the consumer group[{GROUP}] can not consume by broadcast way"

    bench.groups.put(GroupConfig(name=GROUP))
    bench.groups.set_forbidden(GROUP, TOPIC, READ_INDEX, True)
    forbidden = bench.pull(sysFlag="0")
    assert (forbidden.code, forbidden.fields) == (16, {"forbiddenType": "5"})
    assert forbidden.remark == f"the consumer group[{GROUP}] is forbidden for topic[{TOPIC}]"
    assert bench.pull().code == 0


# Commits and figures


def test_a_commit_comes_along_if_the_flag_says_so(bench: Pulling) -> None:
    put_many(bench.store, 3)

    bench.pull(commitOffset="2")
    assert bench.offsets.query(GROUP, TOPIC, 0) == -1
    bench.pull(sysFlag="5", commitOffset="2", queueOffset="9")

    assert bench.offsets.query(GROUP, TOPIC, 0) == 2
    assert bench.offsets.pulled(GROUP, TOPIC, 0) == 3


def test_pulls_are_counted(bench: Pulling) -> None:
    put_many(bench.store, 3)

    size = len(bench.pull().body)
    bench.pull(queueOffset="3")

    traffic = bench.statistics.traffic
    assert (traffic.found_count, traffic.transferred_count, traffic.missed_count) == (1, 3, 1)
    cell = bench.statistics._get_cell((GROUP, TOPIC, 0))
    assert cell is not None
    assert cell[:3] == [1, 3, size]


# Waiting


def test_a_pull_waits_until_a_message_arrives(bench: Pulling) -> None:
    bench.hold(sysFlag="7", commitOffset="0")
    bench.offsets.commit(GROUP, TOPIC, 0, 77)

    put_many(bench.store, 1)

    (response,) = bench.peer.answered
    assert (response.code, field(response, "nextBeginOffset")) == (0, 1)
    assert len(bench.held) == 0
    assert bench.offsets.query(GROUP, TOPIC, 0) == 77  # committed on the first run only


def test_a_pull_without_the_flag_or_the_time_does_not_wait(bench: Pulling) -> None:
    assert bench.pull(sysFlag="4").code == 19
    assert bench.pull(sysFlag="6", suspendTimeoutMillis="0").code == 19
    bench.handlers.may_hold = False
    assert bench.pull(sysFlag="6").code == 19


def test_a_wrong_offset_does_not_wait(bench: Pulling) -> None:
    put_many(bench.store, 1)

    assert bench.pull(sysFlag="6", queueOffset="9").code == 21
    assert bench.pull(sysFlag="6", subscription="Other").code == 20


def test_messages_for_others_leave_a_pull_waiting(bench: Pulling) -> None:
    put(bench.store, b"0", tags="B")
    bench.hold(queueOffset="1", subscription="A")

    put(bench.store, b"1", tags="B")
    put(bench.store, b"2", tags="B")
    assert bench.peer.answered == []
    (held,) = bench.held
    assert (held.offset, held.scanned_offset) == (1, 3)
    put(bench.store, b"3", tags="A")

    (response,) = bench.peer.answered
    assert bodies_of(response) == [b"3"]
    assert field(response, "nextBeginOffset") == 4


async def test_the_regular_check_says_how_far_nothing_matched(bench: Pulling) -> None:
    bench.hold(subscription="A")
    put(bench.store, b"0", tags="B")

    await bench.polling.recheck()

    (response,) = bench.peer.answered
    assert (response.code, field(response, "nextBeginOffset")) == (20, 1)


def test_a_new_subscription_counts_when_a_held_pull_wakes(bench: Pulling) -> None:
    put(bench.store, b"0", tags="TagA")
    bench.join(tags(2598919, version=1))
    bench.hold(sysFlag="2", queueOffset="1", subVersion="1")
    put(bench.store, b"1", tags="TagB")
    assert bench.peer.answered == []

    bench.join(tags(2598920, version=2))
    put(bench.store, b"2", tags="TagC")

    (response,) = bench.peer.answered
    assert bodies_of(response) == [b"1"]


def test_the_end_of_the_time_answers_that_nothing_came(bench: Pulling) -> None:
    bench.hold(suspendTimeoutMillis="1000")

    bench.polling._wake(bench.held.due(bench.clock.now_ms + 1_200), is_last=True)

    (response,) = bench.peer.answered
    assert (response.code, response.remark) == (19, "NO_MESSAGE_IN_QUEUE")


def test_short_polling_waits_for_its_own_time(bench: Pulling) -> None:
    bench.set(long_polling_enable=False, short_polling_time_mills=300)

    bench.hold(suspendTimeoutMillis="60000")

    (held,) = bench.held
    assert held.deadline_ms == bench.clock.now_ms + 300


def test_a_group_that_was_disabled_meanwhile_gets_the_refusal(bench: Pulling) -> None:
    bench.hold()
    bench.groups.disable_consume(GROUP)

    put_many(bench.store, 1)

    (response,) = bench.peer.answered
    assert response.code == 16
    assert len(bench.held) == 0


def test_a_reset_answers_a_held_pull_when_it_wakes(bench: Pulling) -> None:
    bench.hold()
    bench.offsets.assign_reset(GROUP, TOPIC, 0, 7)

    put_many(bench.store, 1)

    (response,) = bench.peer.answered
    assert (response.code, field(response, "nextBeginOffset")) == (21, 7)
    assert len(bench.held) == 0


def test_full_tables_answer_at_once(bench: Pulling) -> None:
    bench.held._held_max = 0

    assert bench.pull(sysFlag="6").code == 19


# Cold messages


@pytest.fixture
def cold(bench: Pulling, monkeypatch: pytest.MonkeyPatch) -> Pulling:
    monkeypatch.setattr(bench.store.reader, "read", lambda *_: None)
    return bench


async def test_cold_messages_are_read_in_a_thread(cold: Pulling) -> None:
    put_many(cold.store, 3)

    assert cold.serve(cold.request()) is None
    assert cold.peer.requests_in_flight == 1
    await until(lambda: bool(cold.peer.answered))

    (response,) = cold.peer.answered
    assert len(records_of(response)) == 3
    assert cold.peer.requests_in_flight == 0


async def test_a_held_pull_that_wakes_to_cold_messages_is_answered_once(
    bench: Pulling, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.hold(subscription="A")
    monkeypatch.setattr(bench.store.reader, "read", lambda *_: None)

    put(bench.store, b"0", tags="A")
    put(bench.store, b"1", tags="A")
    await until(lambda: bool(bench.peer.answered))

    (response,) = bench.peer.answered
    assert bodies_of(response)[0] == b"0"
    assert len(bench.held) == 0


async def test_a_held_pull_does_not_miss_what_comes_while_it_reads(
    bench: Pulling, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.hold(subscription="A")
    read_waiting = bench.store.reader.read_waiting
    gate = threading.Event()

    def read_first_then_wait(*arguments: Any) -> Any:
        result = read_waiting(*arguments)
        assert gate.wait(DEADLINE_S)
        return result

    monkeypatch.setattr(bench.store.reader, "read", lambda *_: None)
    monkeypatch.setattr(bench.store.reader, "read_waiting", read_first_then_wait)
    put(bench.store, b"0", tags="B")
    await until(lambda: bench.cold_reads.count == 1)
    put(bench.store, b"1", tags="A")
    gate.set()
    await until(lambda: bench.cold_reads.count == 0)

    # Either it saw both, or it says that there is more; it does not wait on.
    (response,) = bench.peer.answered
    assert response.code in (0, 20)
    assert len(bench.held) == 0


async def test_too_many_cold_reads_are_refused(cold: Pulling) -> None:
    put_many(cold.store, 1)
    cold.cold_reads._waiting_max = 0

    response = cold.pull()

    assert response.code == 2
    assert (response.remark or "").startswith("[OVERLOAD]")


async def test_a_failing_disk_is_answered(cold: Pulling, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk")

    failures: list[BaseException] = []
    monkeypatch.setattr(cold.store.reader, "read_waiting", fail)

    def answer_with(_: object, make: Any) -> None:
        try:
            make()
        except OSError as error:
            failures.append(error)

    monkeypatch.setattr(cold.peer, "answer_with", answer_with)
    put_many(cold.store, 1)
    assert cold.serve(cold.request()) is None
    await until(lambda: bool(failures))

    assert cold.peer.requests_in_flight == 0
