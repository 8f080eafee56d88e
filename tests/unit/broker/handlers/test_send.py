"""Storing single messages: every check in its order, every answer with its fields."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emberq.broker.transactions import half_ledger
from emberq.errors import ProtocolError
from emberq.model.system_topics import FORBIDDEN_TO_SEND
from emberq.model.topic import TopicConfig, TopicFilterType
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import ONEWAY_BIT, HeaderEncoding, new_request
from emberq.store.results import PutStatus
from tests.support.stores import SYNC, bodies_of
from tests.support.waiting import until
from tests.unit.broker.sending import REGION_FIELDS, Sending, send_request, sending

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
ADDED = {**REGION_FIELDS, "CLUSTER": "DefaultCluster"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Sending]:
    with sending(tmp_path) as running:
        yield running


# What is stored, and what is answered


def test_the_answer_says_where_the_message_is(broker: Sending) -> None:
    broker.send()

    response = broker.send(properties={"UNIQ_KEY": "ABC"}, queue_id=0)

    record = broker.record_of(response)
    assert (response.code, response.remark) == (0, None)
    assert response.fields == {
        "queueId": "0",
        "transactionId": "ABC",
        "msgId": f"0A01020300002A9F{record.log_offset:016X}",
        "queueOffset": "1",
        **REGION_FIELDS,
    }


def test_the_record_has_what_the_request_said(broker: Sending) -> None:
    response = broker.send(body=b"payload", queue_id=2, system_flag=0x301, flag=9, j="5")

    record = broker.record_of(response)
    assert (record.topic, record.queue_id, record.body) == ("Orders", 2, b"payload")
    assert (record.flag, record.system_flag, record.reconsume_times) == (9, 0x301, 5)
    assert record.born_at_ms == 1_700_000_000_123
    assert record.born_host == broker.peer.packed_peer


def test_the_broker_adds_its_properties_behind_the_producers(broker: Sending) -> None:
    text = "KEYS\x01k1\x02TAGS\x01a\x02WAIT\x01true\x02UNIQ_KEY\x01ABC"

    for properties in (text, text + "\x02"):
        record = broker.record_of(broker.send(properties=properties))
        assert record.properties == (
            b"KEYS\x01k1\x02TAGS\x01a\x02WAIT\x01true\x02UNIQ_KEY\x01ABC\x02"
            b"TRACE_ON\x01true\x02MSG_REGION\x01DefaultRegion\x02CLUSTER\x01DefaultCluster\x02"
        )


@pytest.mark.parametrize("properties", ["", "\x02", None])
def test_a_message_without_a_unique_key_gets_one(broker: Sending, properties: str | None) -> None:
    response = (
        broker.send(without="i") if properties is None else broker.send(properties=properties)
    )

    assert response.fields is not None
    assert response.fields["transactionId"] == "KEY1"
    assert broker.properties_of(response) == {**ADDED, "UNIQ_KEY": "KEY1"}


def test_properties_that_a_parser_drops_are_not_stored(broker: Sending) -> None:
    text = "A\x01\x02\x01x\x02B\x011\x02B\x012\x02POP_CK\x01z\x02MSG_REGION\x01me\x02UNIQ_KEY\x01U"

    record = broker.record_of(broker.send(properties=text))

    assert record.properties.count(b"B\x01") == record.properties.count(b"MSG_REGION\x01") == 1
    assert broker.properties_of(broker.send(properties=text)) == {
        **ADDED,
        "B": "2",
        "UNIQ_KEY": "U",
    }


@pytest.mark.parametrize("key", ['A"\\', "é😀", "a b", "\x7f"])
def test_a_strange_unique_key_is_answered_as_it_is(broker: Sending, key: str) -> None:
    response = broker.send(properties={"UNIQ_KEY": key})

    assert response.fields is not None
    assert response.fields["transactionId"] == key


def test_a_binary_request_gets_a_binary_answer(broker: Sending) -> None:
    request = send_request()
    request.encoding = HeaderEncoding.BINARY

    response = broker.serve(request)

    assert response is not None
    assert response.encoding is HeaderEncoding.BINARY
    assert response.fields is not None
    assert response.fields["queueOffset"] == "0"


def test_the_long_form_means_the_same(broker: Sending) -> None:
    fields = {
        "producerGroup": "PG",
        "topic": "Orders",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "1",
        "sysFlag": "1",
        "bornTimestamp": "1700000000000",
        "flag": "7",
        "properties": "TAGS\x01t",
        "reconsumeTimes": "2",
        "unitMode": "false",
        "batch": "false",
    }

    response = broker.serve(new_request(RequestCode.SEND_MESSAGE, fields, b"go"))

    assert response is not None
    record = broker.record_of(response)
    assert (record.topic, record.queue_id, record.body) == ("Orders", 1, b"go")
    assert (record.system_flag, record.flag, record.reconsume_times) == (1, 7, 2)


def test_an_empty_body_is_a_message(broker: Sending) -> None:
    assert broker.record_of(broker.send(body=b"")).body == b""


def test_a_oneway_send_is_stored_and_not_answered(broker: Sending) -> None:
    assert broker.serve(send_request(command_flag=ONEWAY_BIT)) is None

    assert bodies_of(broker.store, "Orders") == [b"hello"]


def test_region_and_trace_switch_follow_the_configuration(broker: Sending) -> None:
    broker.configure(region_id='R"2', trace_on=False)

    response = broker.send()

    assert response.fields is not None
    assert (response.fields["MSG_REGION"], response.fields["TRACE_ON"]) == ('R"2', "false")
    assert broker.properties_of(response)["MSG_REGION"] == 'R"2'


def test_puts_are_counted_with_the_size_of_their_record(broker: Sending) -> None:
    record = broker.record_of(broker.send(queue_id=3))

    assert broker.statistics.puts == [("Orders", 3, 1, record.size_bytes)]


# System flags


@pytest.mark.parametrize(
    ("sent", "stored"), [(0x4, 0), (0x8, 0), (0xC, 0), (0x35, 0x1), (0x40, 0x40)]
)
def test_bits_that_only_the_broker_may_set_are_dropped(
    broker: Sending, sent: int, stored: int
) -> None:
    response = broker.send(system_flag=sent)

    assert broker.record_of(response).system_flag == stored
    assert bodies_of(broker.store, "Orders") == [b"hello"], "it can be consumed"


def test_an_inner_batch_is_illegal_for_a_plain_topic(broker: Sending) -> None:
    assert broker.send(system_flag=0x80).code == 13
    assert broker.send(properties={"INNER_NUM": "2"}).code == 13


def test_a_multi_tag_topic_marks_its_messages(broker: Sending) -> None:
    broker.topics.put(TopicConfig(name="Multi", filter_type=TopicFilterType.MULTI_TAG))

    assert broker.record_of(broker.send("Multi", system_flag=1)).system_flag == 3


# Topics


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("", "The specified topic is blank."),
        (" ", "The specified topic is blank."),
        (
            "a b",
            "The specified topic: a b, contains illegal characters, "
            "allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ("x" * 128, f"The specified topic: {'x' * 128}, is longer than topic max length: 127"),
    ],
)
def test_a_name_that_is_none_is_refused(broker: Sending, topic: str, remark: str) -> None:
    response = broker.send(topic)

    assert (response.code, response.remark, response.fields) == (29, remark, REGION_FIELDS)


@pytest.mark.parametrize("topic", sorted(FORBIDDEN_TO_SEND))
def test_topics_of_the_broker_itself_are_not_sent_to(broker: Sending, topic: str) -> None:
    response = broker.send(topic)

    assert (response.code, response.fields) == (16, REGION_FIELDS)
    assert response.remark == f"Sending message to topic[{topic}] is forbidden."


def test_a_new_topic_is_made_after_the_template(broker: Sending) -> None:
    assert broker.send("New", d="2", k="true").code == 0

    topic = broker.topics.get("New")
    assert topic is not None
    assert (topic.write_queue_count, topic.read_queue_count, topic.permission) == (2, 2, 6)
    assert topic.system_flag == 1


def test_without_a_template_there_is_no_topic(broker: Sending) -> None:
    response = broker.send("New", c="NoSuch")

    assert (response.code, response.fields) == (17, REGION_FIELDS)
    assert response.remark == f"topic[New] not exist, apply first please!{FAQ}"
    assert broker.topics.get("New") is None


def test_a_new_topic_needs_a_template_and_a_count(broker: Sending) -> None:
    for without in "cd":
        with pytest.raises(ProtocolError):
            broker.send("New", without=without)
    assert broker.send("TBW102", without="acd").code == 0


def test_a_queue_that_is_not_there_is_refused(broker: Sending) -> None:
    response = broker.send(queue_id=4)

    assert (response.code, response.fields) == (29, REGION_FIELDS)
    assert response.remark == (
        "request queueId[4] is illegal, TopicConfig [topicName=Orders, readQueueNums=4, "
        "writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, "
        "attributes={}] Producer: 192.0.2.7:40000"
    )


def test_the_larger_of_both_counts_decides(broker: Sending) -> None:
    broker.topics.put(TopicConfig(name="Closing", write_queue_count=0, read_queue_count=2))

    assert broker.send("Closing", queue_id=1).code == 0
    with pytest.raises(ProtocolError):
        broker.send("Closing", queue_id=-1)


def test_the_broker_chooses_among_all_queues(broker: Sending) -> None:
    chosen = set()
    for _ in range(200):
        response = broker.send(queue_id=-1)
        assert response.fields is not None
        chosen.add(response.fields["queueId"])

    assert chosen == {"0", "1", "2", "3"}


def test_a_topic_that_changes_is_looked_at_again(broker: Sending) -> None:
    broker.send(queue_id=3)

    broker.topics.put(TopicConfig(name="Orders", write_queue_count=1, read_queue_count=1))

    assert broker.send(queue_id=3).code == 29


# The broker's own switches


def test_before_its_time_the_broker_takes_nothing(broker: Sending) -> None:
    broker.configure(start_accept_send_request_time_stamp=broker.clock.now_ms + 1)
    response = broker.send()
    broker.clock.now_ms += 1

    assert (response.code, response.fields) == (1, REGION_FIELDS)
    assert response.remark is not None
    assert response.remark.startswith("broker unable to service, until 20")
    assert broker.send().code == 0


def test_without_write_permission_only_ordered_topics_are_closed(broker: Sending) -> None:
    broker.topics.put(TopicConfig(name="Ordered", is_ordered=True))
    assert broker.send("Ordered").code == 0

    broker.configure(broker_permission=4)
    response = broker.send("Ordered")

    assert (response.code, response.fields) == (16, REGION_FIELDS)
    assert response.remark == "the broker[10.1.2.3] sending message is forbidden"
    assert broker.send().code == 0


# Sizes


def test_a_body_above_the_limit_is_illegal(tmp_path: Path) -> None:
    with sending(tmp_path, max_message_size=100) as broker:
        response = broker.send(body=b"x" * 101)

        assert (response.code, response.fields) == (13, REGION_FIELDS)
        assert response.remark is not None
        assert "msg body length limit 100B" in response.remark
        assert broker.send(body=b"x" * 100).code == 0


def test_a_record_larger_than_a_segment_is_illegal(broker: Sending) -> None:
    assert broker.send(body=b"x" * 16_400).code == 13


def test_properties_count_with_what_the_broker_adds(tmp_path: Path) -> None:
    with sending(tmp_path, mapped_file_size_commit_log=64 * 1024) as broker:
        assert broker.send(properties="A\x01" + "x" * 32_660).code == 0
        assert broker.send(properties="A\x01" + "x" * 32_720).code == 13


# Delays, timers, transactions


def test_a_delayed_message_is_answered_with_its_own_queue(broker: Sending) -> None:
    broker.send(properties={"DELAY": "1"})

    response = broker.send(queue_id=3, properties={"DELAY": "1", "UNIQ_KEY": "U"})

    record = broker.record_of(response)
    assert response.fields is not None
    assert (response.fields["queueId"], response.fields["queueOffset"]) == ("3", "1")
    assert (record.topic, record.queue_id) == ("SCHEDULE_TOPIC_XXXX", 0)
    assert broker.statistics.puts[1][:2] == ("SCHEDULE_TOPIC_XXXX", 0)
    assert broker.properties_of(response) == {
        **ADDED,
        "DELAY": "1",
        "REAL_QID": "3",
        "REAL_TOPIC": "Orders",
        "UNIQ_KEY": "U",
    }


def test_a_level_that_is_no_number_is_an_error(broker: Sending) -> None:
    with pytest.raises(ProtocolError):
        broker.send(properties={"DELAY": "abc"})


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_timers_are_refused_for_now(broker: Sending, name: str) -> None:
    response = broker.send(properties={name: "5"})

    assert (response.code, response.fields) == (1, REGION_FIELDS)
    assert response.remark == "accurate timer message is not enabled, timerWheelEnable is false"


def test_half_messages_are_stored_out_of_sight(broker: Sending) -> None:
    for number, text in enumerate(("true", "TRUE")):
        response = broker.send(
            properties={"TRAN_MSG": text, "PGROUP": "PG"}, system_flag=4, queue_id=3
        )
        assert broker.record_of(response).topic == "RMQ_SYS_TRANS_HALF_TOPIC"
        assert response.fields is not None
        assert response.fields["queueId"] == "3"
        assert response.fields["queueOffset"] == str(number)


def test_what_only_looks_like_a_half_message_is_none(broker: Sending) -> None:
    for properties, attempts in (
        ({"TRAN_MSG": "false"}, "0"),
        ({"TRAN_MSG": "true", "DELAY": "1"}, "1"),  # sent back by an old consumer
    ):
        response = broker.send(properties=properties, j=attempts)
        assert broker.record_of(response).topic != "RMQ_SYS_TRANS_HALF_TOPIC"


def test_half_messages_may_be_forbidden(broker: Sending) -> None:
    broker.configure(reject_transaction_message=True)

    response = broker.send(properties={"TRAN_MSG": "true"}, system_flag=4)

    assert (response.code, response.fields) == (16, REGION_FIELDS)
    assert response.remark == "the broker[10.1.2.3] sending transaction message is forbidden"


def test_too_many_open_half_messages_are_an_overload(
    broker: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_ledger, "WINDOW_MAX", 1)
    half = {"TRAN_MSG": "true", "PGROUP": "PG"}

    assert broker.send(properties=half).code == 0
    assert broker.send(properties=half).code == 2
    assert broker.send().code == 0


# Messages that consumers send again


def test_a_retry_makes_its_topic_and_its_group(broker: Sending) -> None:
    broker.configure(auto_create_topic_enable=False)
    broker.topics.set_auto_creation(False, 8)

    assert broker.send("%RETRY%G", k="true").code == 0

    topic = broker.topics.get("%RETRY%G")
    assert topic is not None
    assert (topic.write_queue_count, topic.permission, topic.system_flag) == (1, 6, 2)
    assert broker.groups.get("G") is not None


def test_a_retry_of_an_unknown_group_is_refused(broker: Sending) -> None:
    broker.configure(auto_create_subscription_group=False)

    response = broker.send("%RETRY%G")

    assert (response.code, response.fields) == (26, REGION_FIELDS)
    assert response.remark == f"subscription group not exist, G {FAQ}"


def test_a_retry_waits_as_it_asks(broker: Sending) -> None:
    response = broker.send("%RETRY%G", properties={"DELAY": "4", "RETRY_TOPIC": "Orders"}, j="16")

    properties = broker.properties_of(response)
    assert broker.record_of(response).topic == "SCHEDULE_TOPIC_XXXX"
    assert properties["REAL_TOPIC"] == "%RETRY%G"


@pytest.mark.parametrize(("attempts", "limit"), [("17", None), ("4", "3")])
def test_more_attempts_than_allowed_make_a_dead_letter(
    broker: Sending, attempts: str, limit: str | None
) -> None:
    request = send_request("%RETRY%G", queue_id=2, properties={"DELAY": "4"}, j=attempts)
    if limit is not None:
        assert request.fields is not None
        request.fields["l"] = limit

    response = broker.serve(request)

    assert response is not None
    record = broker.record_of(response)
    assert response.fields is not None
    assert response.fields["queueId"] == "2", "the queue that was asked for"
    assert (record.topic, record.queue_id) == ("%DLQ%G", 0)
    assert broker.properties_of(response)["DELAY"] == "-1"
    dead_letters = broker.topics.get("%DLQ%G")
    assert dead_letters is not None
    assert (dead_letters.write_queue_count, dead_letters.permission) == (1, 6)


def test_an_old_client_cannot_say_how_often(broker: Sending) -> None:
    response = broker.send("%RETRY%G", j="4", l="3", version=100)

    assert broker.record_of(response).topic == "%RETRY%G"


def test_a_group_that_consumes_in_order_does_not_wait(broker: Sending) -> None:
    broker.ordered_groups.add("G")

    response = broker.send("%RETRY%G", j="1")

    assert broker.record_of(response).topic == "%DLQ%G"


# Overload


def test_while_the_disk_is_behind_sends_are_refused_at_the_door(broker: Sending) -> None:
    broker.store._admission.is_index_busy = True

    response = broker.send()

    assert (response.code, response.fields) == (2, None)
    assert response.remark == "[REJECTREQUEST]system busy, start flow control for a while"


def test_a_store_that_takes_nothing_says_so(broker: Sending) -> None:
    broker.store._admission.fail("the disk is full")

    response = broker.send()

    assert (response.code, response.fields) == (14, REGION_FIELDS)
    assert response.remark is not None
    assert response.remark.startswith("service not available now. It may be caused by")


def test_how_long_a_send_may_wait_follows_the_configuration(broker: Sending) -> None:
    def limits() -> set[float | None]:
        codes = (10, 310, 320)
        return {entry.wait_max_ms for code in codes if (entry := broker.registry.get(code))}

    assert limits() == {200.0}
    broker.configure(wait_time_mills_in_send_queue=500)
    assert limits() == {500.0}
    broker.configure(broker_fast_failure_enable=False)
    assert limits() == {None}


# SYNC_FLUSH


async def test_under_sync_flush_the_answer_waits_for_the_disk(tmp_path: Path) -> None:
    with sending(tmp_path, **SYNC) as broker:
        assert broker.serve(send_request(properties={"DELAY": "1"})) is None
        assert broker.serve(send_request()) is None
        assert broker.peer.requests_in_flight == 2

        def answers() -> int:
            broker.store.poll()
            return len(broker.peer.answered)

        await until(lambda: answers() == 2)
        assert [response.code for response in broker.peer.answered] == [0, 0]
        assert broker.store.flushed_offset == broker.store.log.end
        assert broker.record_of(broker.peer.answered[1]).body == b"hello"


def test_who_does_not_wait_is_answered_at_once(tmp_path: Path) -> None:
    with sending(tmp_path, **SYNC) as broker:
        assert broker.send(properties={"WAIT": "false"}).code == 0


def test_a_flush_that_takes_too_long_is_named(tmp_path: Path) -> None:
    with sending(tmp_path, **SYNC) as broker:
        outcome = broker.handler._hold
        request = send_request()
        result = broker.store.put("Orders", 0, b"x", born_host=broker.peer.packed_peer)
        settle = []
        broker.handler._held._when_durable = lambda _, done: settle.append(done)

        outcome(request, broker.peer, result, 0, "U")  # type: ignore[arg-type]  # a stand-in
        outcome(request, broker.peer, result, 0, "U")  # type: ignore[arg-type]  # a stand-in
        settle[0](PutStatus.FLUSH_DISK_TIMEOUT)
        settle[1](PutStatus.SERVICE_NOT_AVAILABLE)

    timed_out, failed = broker.peer.answered
    assert timed_out.code == 10
    assert timed_out.fields is not None
    assert timed_out.fields["msgId"] == f"0A01020300002A9F{0:016X}"
    assert (failed.code, failed.fields) == (14, REGION_FIELDS)


def test_too_many_that_wait_are_an_overload(tmp_path: Path) -> None:
    with sending(tmp_path, **SYNC) as broker:
        broker.handler._held._held_max = 0

        response = broker.send()

    assert response.code == 2
    assert response.remark == "[OVERLOAD]system busy, start flow control for a while"
