"""Trace messages become the way of a message."""

from emberq.admin.traces import traces_of
from emberq.client.core.received import ReceivedMessage
from emberq.client.core.trace_reading import ConsumeBegan, ConsumeEnded, Published, Recalled
from emberq.model.queue import MessageQueue
from emberq.record.decode import decode_record
from emberq.record.encode import encode_record
from emberq.record.host import pack_host


def trace_message(*records: tuple[object, ...]) -> ReceivedMessage:
    text = "".join("\x01".join(map(str, fields)) + "\x02" for fields in records)
    record = decode_record(
        encode_record("RMQ_SYS_TRACE_TOPIC", text.encode(), born_host=pack_host("192.0.2.1", 4000))
    )
    return ReceivedMessage(record, MessageQueue("b", 0, record.topic), record.topic)


def sent(at_ms: int, message_id: str, keys: str = "k") -> tuple[object, ...]:
    place = (at_ms, "R", "g", "T", message_id, "null", keys, "10.0.0.1:10911")
    return ("Pub", *place, 5, 7, 0, "OFF", "true")


BEGAN = ("SubBefore", 20, "R", "c", "Q", "A", 0, "k")
DONE_OLD = ("SubAfter", "Q", "A", 4, "true", "k")


def test_records_of_several_clients_are_put_in_order() -> None:
    messages = [trace_message(DONE_OLD), trace_message(BEGAN), trace_message(sent(10, "A"))]

    [trace] = traces_of(messages, "A")

    assert [type(event) for event in trace.events] == [Published, ConsumeBegan, ConsumeEnded]
    assert (trace.message_id, trace.topic, trace.keys) == ("A", "T", ["k"])
    assert {event.client_host for event in trace.events} == {"192.0.2.1:4000"}


def test_a_send_comes_first_though_a_clock_says_otherwise() -> None:
    messages = [trace_message(BEGAN, DONE_OLD), trace_message(sent(21, "A"), sent(30, "A"))]

    [trace] = traces_of(messages, "A")

    kinds = [Published, ConsumeBegan, ConsumeEnded, Published]
    assert [type(event) for event in trace.events] == kinds


def test_a_key_leads_to_all_its_messages_and_no_others() -> None:
    messages = [trace_message(sent(30, "C"), sent(20, "B"), sent(10, "X", "other"))]

    assert [trace.message_id for trace in traces_of(messages, "k")] == ["B", "C"]
    assert traces_of(messages, "nothing") == []


def test_a_record_without_keys_is_found_by_the_message_that_has_them() -> None:
    recall = ("Recall", 20, "R", "g", "T", "A", "true")
    messages = [trace_message(recall), trace_message(sent(10, "A"), sent(10, "B", "other"))]

    [trace] = traces_of(messages, "k")

    assert [type(event) for event in trace.events] == [Published, Recalled]


def test_one_message_of_a_batch_is_told_apart() -> None:
    [trace] = traces_of([trace_message(sent(10, "A,B"))], "B")

    assert trace.message_id == "B"


def test_a_record_that_was_sent_twice_is_shown_once() -> None:
    messages = [trace_message(sent(10, "A")), trace_message(sent(10, "A"))]

    [trace] = traces_of(messages, "A")

    assert len(trace.events) == 1
