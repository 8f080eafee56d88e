"""Trace records, field by field as trace readers expect them."""

from emberq.client.core.trace_records import (
    CONSUMED,
    RAISED,
    Consumed,
    Recalled,
    Sent,
    trace_message,
)


def sent(message_id: str = "ID1", keys: str | None = "k1 k2", tags: str | None = "A") -> Sent:
    return Sent(
        at_ms=1000,
        region="DefaultRegion",
        group="writers",
        topic="orders",
        message_id=message_id,
        tags=tags,
        keys=keys,
        broker_address="10.0.0.1:10911",
        body_size=5,
        cost_ms=3,
        message_type=0,
        offset_message_id="OFF1",
    )


def consumed(code: int) -> Consumed:
    return Consumed(
        started_at_ms=1000,
        ended_at_ms=1010,
        region="DefaultRegion",
        group="readers",
        request_id="REQ",
        message_id="ID1",
        retry_times=2,
        keys=None,
        cost_ms=10,
        code=code,
    )


def test_a_sent_message_makes_a_pub_record() -> None:
    assert sent().text() == (
        "Pub\x011000\x01DefaultRegion\x01writers\x01orders\x01ID1\x01A\x01k1 k2\x01"
        "10.0.0.1:10911\x015\x013\x010\x01OFF1\x01true\x02"
    )


def test_a_recall_makes_a_record_of_its_own() -> None:
    recalled = Recalled(
        at_ms=1000,
        region="DefaultRegion",
        group="writers",
        topic="orders",
        message_id="ID1",
        is_success=True,
    )

    assert (
        recalled.text() == "Recall\x011000\x01DefaultRegion\x01writers\x01orders\x01ID1\x01true\x02"
    )
    assert recalled.index_keys() == ["ID1"]


def test_missing_text_is_written_as_java_writes_it() -> None:
    assert "\x01ID1\x01null\x01null\x01" in sent(tags=None, keys=None).text()


def test_a_consumed_message_makes_two_records() -> None:
    assert consumed(CONSUMED).text() == (
        "SubBefore\x011000\x01DefaultRegion\x01readers\x01REQ\x01ID1\x012\x01null\x02"
        "SubAfter\x01REQ\x01ID1\x0110\x01true\x01null\x010\x011010\x01readers\x02"
    )
    assert "\x0110\x01false\x01null\x012\x01" in consumed(RAISED).text()


def test_a_trace_message_is_found_by_all_ids_and_keys() -> None:
    text, keys, taken = trace_message([sent("ID1,ID2"), sent("ID3")], 10_000, 10_000)

    assert keys == ["ID1", "ID2", "k1", "k2", "ID3"]
    assert (text.count("\x02"), taken) == (2, 2)


def test_a_trace_message_has_limits_but_never_none() -> None:
    contexts = [sent("ID1"), sent("ID2"), sent("ID3")]
    size = len(contexts[0].text())

    assert trace_message(contexts, size * 2, 10_000)[2] == 2
    assert trace_message(contexts, 10_000, 14)[2] == 2
    assert trace_message(contexts, 1, 1)[2] == 1
