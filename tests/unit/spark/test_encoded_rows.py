"""Both ways of rows to requests make the same of them, byte by byte and queue by queue."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from emberq.client.core.message import Message
from emberq.client.core.outgoing import MESSAGE_SIZE_MAX_BYTES, check_topic, split_batch
from emberq.errors import MessageRefused
from emberq.model.queue import MessageQueue
from emberq.record.message_id import UniqueKeyGenerator
from emberq.record.string_hash import java_string_hash
from emberq.spark import encoded_rows, outgoing_rows
from emberq.spark.encoded_placing import bodies_of, placed_rows
from emberq.spark.encoded_rows import (
    EncodedRows,
    RowEncoder,
    hex_keys,
    java_hashes,
    unique_keys,
)
from emberq.spark.outgoing_columns import values_of
from emberq.spark.outgoing_rows import RowMessages, placed
from emberq.spark.row_rules import RowRules

BEGIN = "C0A80001" * 3 + "0000"
FIRST_NUMBER = 65_530  # the last four digits begin again on the way
QUEUES = [MessageQueue(broker, number, "") for broker in ("a", "b") for number in range(3)]
ARROW = {
    "body": pa.binary(),
    "topic": pa.string(),
    "tags": pa.string(),
    "keys": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "shardingKey": pa.string(),
    "id": pa.string(),
    "flag": pa.int32(),
    "queueId": pa.int32(),
    "delayLevel": pa.int32(),
}

plain = st.text("abcdefgh-_ 0123äß漢😀\u3000", min_size=1, max_size=12)
# Now and then what is refused, or means something.
odd = st.sampled_from(["", " ", "\u2003", "\x01", "a\x02", "\x00", "TAGS", "SPARK_ID", "x"])
text = st.integers(0, 60).flatmap(lambda number: st.none() | plain if number else odd)
maps = st.none() | st.lists(
    st.tuples(
        st.integers(0, 60).flatmap(
            lambda number: (
                plain if number else st.sampled_from(["user", "__SHARDINGKEY", "KEYS", ""])
            )
        ),
        text,
    ),
    max_size=3,
    unique_by=lambda item: item[0],
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "body": st.binary(min_size=1, max_size=40),
    "topic": st.sampled_from([None, "", "one", "two"]),
    "tags": text,
    "keys": text,
    "properties": maps,
    "shardingKey": text,
    "id": text,
    "flag": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
    "queueId": st.sampled_from([None, None, 0, 1, 2]),
    "delayLevel": st.sampled_from([None] * 20 + [3]),
}


@st.composite
def record_batches(draw: st.DrawFn) -> pa.RecordBatch:
    names = ["body", *draw(st.lists(st.sampled_from(list(VALUES)[1:]), unique=True))]
    count = draw(st.integers(1, 12))
    arrays = [
        pa.array(draw(st.lists(VALUES[name], min_size=count, max_size=count)), ARROW[name])
        for name in names
    ]
    whole = pa.RecordBatch.from_arrays(arrays, names)
    return whole.slice(draw(st.integers(0, count - 1)))  # as Spark's batches may be


def encoder_of(rows: RowMessages, *, by_id: bool = False) -> RowEncoder:
    def keys(topic: str, ids: Any, count: int) -> Any:
        return hex_keys(BEGIN, range(FIRST_NUMBER, FIRST_NUMBER + count))

    return RowEncoder(rows, keys, by_id=by_id)


def one_by_one(messages: list[Message]) -> list[bytes]:
    """The elements that the client makes of messages of one topic."""
    ids = [f"{BEGIN}{FIRST_NUMBER + number & 0xFFFF:04X}" for number in range(len(messages))]
    pieces = split_batch(zip(messages, ids, strict=True), MESSAGE_SIZE_MAX_BYTES)
    return [element for piece in pieces for element, _ in piece]


def columns_of(batch: pa.RecordBatch) -> Mapping[str, Any]:
    return {name: batch.column(name) for name in batch.schema.names}


@given(record_batches(), st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_both_ways_make_the_same_of_rows(
    batch: pa.RecordBatch, has_ids: bool, by_id: bool, first: int
) -> None:
    prefix, rules = "w-0-1" if has_ids or by_id else None, RowRules(has_own_ids=by_id)
    rows, other = (RowMessages("one", prefix, rules) for _ in range(2))
    rows.count = other.count = first
    found = encoder_of(rows, by_id=by_id).encode(columns_of(batch), batch.num_rows)
    event("quick" if found else "not quick")
    if found is None:
        assert rows.count == first
        return

    lists = batch.to_pydict()
    messages = list(other.messages(lists, batch.num_rows))
    queue_ids = lists.get("queueId", [None] * len(messages))
    topics = {message.topic for message in messages}
    whole = placed(messages, queue_ids, dict.fromkeys(topics, QUEUES), 5, by_id=by_id)
    assert rows.count == other.count
    assert [each.topic for each in found] == list(dict.fromkeys(each.topic for each in messages))
    for own in found:
        same_topic = [message for message in messages if message.topic == own.topic]
        elements = one_by_one(same_topic)
        assert own.elements.to_pylist() == elements
        by_queue = placed_rows(own, QUEUES, 5)
        numbers = {id(message): number for number, message in enumerate(same_topic)}
        assert {queue: part.to_pylist() for queue, part in by_queue.items()} == {
            queue: [elements[numbers[id(each)]] for each in part if id(each) in numbers]
            for queue, part in whole.items()
            if any(id(each) in numbers for each in part)
        }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("body", None),
        ("body", b""),
        ("body", bytes(MESSAGE_SIZE_MAX_BYTES)),
        ("tags", " "),
        ("keys", "\u2003\t"),
        ("keys", "a\x01"),
        ("keys", "k" * 40_000),
        ("shardingKey", ""),
        ("id", "a\x02b"),
        ("properties", [("TAGS", "red")]),
        ("properties", [("", "red")]),
        ("properties", [("a", " ")]),
        ("properties", [("a\x02", "b")]),
    ],
)
def test_every_reason_of_the_client_to_refuse_is_known(name: str, value: object) -> None:
    columns = {"body": pa.array([b"good", b"x"])}
    good = b"good" if name == "body" else None
    columns[name] = pa.array([good, value], ARROW[name])
    lists = {each: column.to_pylist() for each, column in columns.items()}

    assert encoder_of(RowMessages("one", "w-0-1")).encode(columns, 2) is None
    with pytest.raises(MessageRefused):
        one_by_one(list(RowMessages("one", "w-0-1").messages(lists, 2)))


@pytest.mark.parametrize("ids", [["1", None], ["1", ""], [None, None]])
def test_rows_that_lack_ids_take_the_other_way_where_all_must_have_one(
    ids: list[str | None],
) -> None:
    columns = {"body": pa.array([b"a", b"b"]), "id": pa.array(ids, pa.string())}
    rows = RowMessages("one", "w-0-1", RowRules(has_own_ids=True))

    assert encoder_of(rows, by_id=True).encode(columns, 2) is None
    assert encoder_of(RowMessages("one", "w-0-1")).encode(columns, 2) is not None
    assert encoder_of(rows, by_id=True).encode({"body": columns["body"]}, 2) is not None


def test_rows_that_are_too_large_for_a_batch_take_the_other_way() -> None:
    columns = {"body": pa.array([b"a", bytes(100)])}
    small, large = RowRules(size_max_bytes=100), RowRules(size_max_bytes=300)

    assert encoder_of(RowMessages("one", None, small)).encode(columns, 2) is None
    assert encoder_of(RowMessages("one", None, large)).encode(columns, 2) is not None


def test_a_row_that_names_a_queue_that_is_not_there_is_told() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"body": [b"a"] * 4, "topic": ["one", "two", "one", "one"], "queueId": [0, 0, 0, 77]}
    )
    rows = RowMessages(None, None)
    rows.count = 10
    found = encoder_of(rows).encode(columns_of(batch), 4)
    assert found is not None

    with pytest.raises(MessageRefused, match="row 13: one has no queue 77"):
        placed_rows(found[0], QUEUES, 0)


def not_utf8(column: str, *, is_large: bool = False) -> pa.RecordBatch:
    """A batch of three rows, of which the last has such a text in a column."""
    texts = pa.array([b"a", b"b", b"\xff"], pa.large_binary() if is_large else pa.binary())
    kind = pa.LargeStringArray if is_large else pa.StringArray
    texts = kind.from_buffers(3, *texts.buffers()[1:])
    value = texts
    if column == "properties":
        value = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), ["x", "y", "z"], texts)
    return pa.RecordBatch.from_pydict({"value": ["1", "2", "3"], column: value})


@pytest.mark.parametrize("column", ["topic", "tags", "keys", "properties", "shardingKey", "id"])
@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("is_large", [False, True])
def test_a_text_that_is_not_utf8_takes_the_other_way_which_says_where_it_is(
    column: str, by_id: bool, is_large: bool
) -> None:
    batch = not_utf8(column, is_large=is_large)

    encoder = encoder_of(RowMessages("one", "w"), by_id=by_id)
    assert encoder.encode(columns_of(batch), batch.num_rows) is None
    with pytest.raises(MessageRefused, match=f"row 42 has no UTF-8 text in its column {column}"):
        values_of(column, batch.column(column), 40)


def test_a_body_goes_as_it_is_though_it_is_not_utf8_on_both_ways() -> None:
    batch = not_utf8("value")

    found = encoder_of(RowMessages("one", "w")).encode(columns_of(batch), batch.num_rows)
    assert found is not None
    lists = {"value": values_of("value", batch.column("value"), 0)}
    messages = list(RowMessages("one", "w").messages(lists, batch.num_rows))
    assert [message.body for message in messages] == [b"a", b"b", b"\xff"]
    assert found[0].elements.to_pylist() == one_by_one(messages)


@pytest.mark.parametrize("count", [0, 1, 32_768, 100_000, 200_001])
def test_keys_of_a_batch_are_unique_however_many_rows_it_has(count: int) -> None:
    asked = 0

    def now_ms() -> int:  # a clock that may stand still between two questions
        nonlocal asked
        asked += 1
        return 1_700_000_000_000 + asked // 3

    keys = UniqueKeyGenerator(bytes(4), 7, 9, now_ms)

    found = unique_keys(keys.take_numbers, count).to_pylist()

    assert len(found) == len(set(found)) == count
    assert all(len(key) == 32 for key in found)


def test_ordinary_rows_take_the_quick_way() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "value": ["a", "b"],
            "keys": ["k 1", None],
            "tags": [None, "漢"],
            "properties": pa.array(
                [[("user", "u"), ("gone", None)], [("size", "groß")]], ARROW["properties"]
            ),
            "flag": pa.array([None, -7], pa.int32()),
            "deliverAt": pa.array([None, None], pa.timestamp("us", "UTC")),
        }
    )

    assert encoder_of(RowMessages("one", "w")).encode(columns_of(batch), 2) is not None


def encoded(sizes: list[int]) -> EncodedRows:
    batch = pa.RecordBatch.from_pydict({"body": [bytes(size or 1) for size in sizes]})
    found = encoder_of(RowMessages("one", None)).encode(columns_of(batch), len(sizes))
    assert found is not None
    return found[0]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(1, 9))
def test_requests_hold_as_much_as_fits(sizes: list[int], count_max: int) -> None:
    elements = encoded(sizes).elements
    size_max = 400

    bodies = list(bodies_of(elements, size_max, count_max))

    assert b"".join(bodies) == b"".join(elements.to_pylist())
    assert all(0 < len(body) <= size_max for body in bodies)


def test_rows_that_are_free_go_to_queues_in_large_pieces() -> None:
    count = outgoing_rows.FREE_ROWS_TOGETHER * 2 + 1
    by_queue = placed_rows(encoded([1] * count), QUEUES, 4)

    assert [len(own) for own in by_queue.values()] == [1, 1000, 1000]
    assert list(by_queue) == [QUEUES[0], QUEUES[4], QUEUES[5]]


@given(st.lists(st.none() | st.text(max_size=8) | st.text("abc", max_size=200), min_size=1))
def test_texts_are_hashed_as_java_hashes_them(texts: list[str | None]) -> None:
    texts = [each if each is None else each.encode(errors="ignore").decode() for each in texts]

    hashes = java_hashes(pa.array(texts, pa.string())).tolist()

    assert hashes == [java_string_hash(each or "") for each in texts]


def test_bodies_that_arrow_cannot_hold_together_are_left_to_the_other_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoded_rows, "_TOGETHER_MAX_BYTES", 10)
    batch = pa.RecordBatch.from_pydict({"body": [bytes(20)]})

    assert encoder_of(RowMessages("one", None)).encode(columns_of(batch), 1) is None


def test_topics_that_no_broker_takes_are_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"body": [b"x"]})

    with pytest.raises(MessageRefused):
        check_topic("bad topic")
    with pytest.raises(MessageRefused, match=r"row 0 for bad topic: .* may have letters"):
        encoder_of(RowMessages("bad topic", None)).encode(columns_of(batch), 1)
