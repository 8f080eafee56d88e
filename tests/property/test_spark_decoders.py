"""The decoders that work in columns make the rows of the reference, whatever the records."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberq.errors import RecordError
from emberq.record.batch import BatchElement, encode_batch
from emberq.record.compression import compress
from emberq.record.encode import encode_record
from emberq.record.host import PackedHost, pack_host
from emberq.record.properties import encode_properties
from emberq.record.system_flag import (
    COMPRESSED,
    COMPRESSION_SHIFT,
    INNER_BATCH,
    NEEDS_UNWRAP,
    CompressionType,
    with_compression,
)
from emberq.spark.columns import BINARY, MAP, MESSAGES, STRING, Column
from emberq.spark.decode.scalar import decode_scalar
from emberq.spark.decode.shape import RowShape
from emberq.spark.decode.vector import HAS_COMPILED, decode_compiled, decode_vector
from emberq.spark.options import DecodeOptions

pytestmark = pytest.mark.property

fast_decoders = pytest.mark.parametrize(
    "decode",
    [
        decode_vector,
        pytest.param(
            decode_compiled,
            marks=pytest.mark.skipif(not HAS_COMPILED, reason="the decoder is not compiled here"),
        ),
    ],
)

HOSTS = st.sampled_from(
    [
        pack_host("10.0.0.1", 10911),
        pack_host("2001:db8::7", 5),
        PackedHost(b"\x0a\x00\x00\x02" + (70_000).to_bytes(4, "big")),  # no port
    ]
)
NAMES = st.sampled_from(
    [
        *("KEYS", "TAGS", "UNIQ_KEY", "TIMER_DELIVER_MS", "WAIT", "a", "ab", "naïve", "KEYSKEYS"),
        *("TIMER_DELIVER_MT", "prefix-shared-suffix-x", "prefix-other-suffix-x"),
    ]
)
VALUES = st.one_of(
    st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1),
    st.sampled_from(["1700000000000", "99999999999999999999", "0" * 15 + "1", "red", "blue"]),
)
REGULAR = st.builds(
    lambda properties, is_terminated: encode_properties(properties, is_terminated=is_terminated),
    st.dictionaries(NAMES, VALUES, max_size=6),
    st.booleans(),
)
TAGGED = st.sampled_from(
    [
        *(encode_properties({"TAGS": tag}) for tag in ("red", "blue", "green")),
        encode_properties({"TIMER_DELIVER_MS": "9" * 5_000}),  # no number that Python would read
    ]
)
ODD = st.one_of(
    st.text(alphabet="ab\x01\x02é", max_size=20).map(str.encode),
    st.binary(max_size=20),
    st.lists(st.sampled_from([b"a\x01b\x02", b"KEYS\x01k\x02", b"\xc3", b"\xa9"])).map(b"".join),
)
TIMES = st.one_of(st.integers(0, 2_000_000_000_000), st.integers(-(1 << 63), (1 << 63) - 1))
INT_32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT_64 = st.integers(-(1 << 63), (1 << 63) - 1)
TYPE_BITS = st.sampled_from([0, 0x4, 0x8, 0x40, 0x80, 0x2])


@st.composite
def records(draw: st.DrawFn, properties: st.SearchStrategy[bytes]) -> bytes:
    body = draw(st.one_of(st.binary(max_size=40), st.text(max_size=10).map(str.encode)))
    flag = draw(TYPE_BITS)
    kind = draw(st.sampled_from([None, None, None, *CompressionType, "batch", "damaged"]))
    if kind == "batch":
        elements = draw(st.lists(st.builds(BatchElement, st.binary(max_size=9), REGULAR)))
        body, flag = encode_batch(elements), flag | INNER_BATCH | NEEDS_UNWRAP
    elif kind == "damaged":  # or packed in a way that nobody knows
        flag |= COMPRESSED | draw(st.integers(0, 7)) << COMPRESSION_SHIFT
    elif isinstance(kind, CompressionType):
        body, flag = compress(body, kind), with_compression(flag, kind)
    return encode_record(
        draw(st.sampled_from(["orders", "größen", "t" * 200])),
        body,
        draw(properties),
        queue_id=draw(INT_32),
        flag=draw(INT_32),
        queue_offset=draw(st.integers(0, 30)),
        log_offset=draw(INT_64),
        system_flag=flag,
        born_at_ms=draw(TIMES),
        born_host=draw(HOSTS),
        stored_at_ms=draw(TIMES),
        store_host=draw(HOSTS),
        reconsume_times=draw(INT_32),
        prepared_offset=draw(INT_64),
        is_v2=draw(st.booleans()),
    )


USUAL_PROPERTIES = st.builds(
    encode_properties, st.dictionaries(NAMES, VALUES, max_size=9), is_terminated=st.booleans()
)


@st.composite
def usual_records(draw: st.DrawFn) -> bytes:
    """Nearly always such as the compiled decoder takes in one pass."""
    is_odd = draw(st.integers(0, 30)) == 0
    return encode_record(
        draw(st.sampled_from(["orders", "größen"])),
        draw(st.one_of(st.binary(max_size=60), st.text(max_size=20).map(str.encode))),
        draw(ODD if is_odd else USUAL_PROPERTIES),
        queue_id=draw(INT_32),
        flag=draw(INT_32),
        queue_offset=draw(st.integers(0, 30)),
        log_offset=draw(INT_64),
        system_flag=draw(TYPE_BITS) & ~(INNER_BATCH | NEEDS_UNWRAP),
        born_at_ms=draw(st.integers(0, 2_000_000_000_000)),
        stored_at_ms=draw(TIMES if is_odd else st.integers(0, 2_000_000_000_000)),
        reconsume_times=draw(INT_32),
        prepared_offset=draw(INT_64),
    )


@st.composite
def shapes(draw: st.DrawFn) -> RowShape:
    known = [*MESSAGES, Column("body", STRING), Column("properties", STRING)]
    columns = draw(st.lists(st.sampled_from(known), min_size=1, unique_by=lambda each: each.name))
    options = DecodeOptions(
        is_decompressed=draw(st.booleans()), tags=draw(st.sampled_from([(), ("red", "blue")]))
    )
    first = draw(st.integers(0, 10))
    return RowShape(
        tuple(columns), "orders", "broker-a", first, draw(st.integers(first, 31)), options
    )


def outcome(decode: Any, content: bytes, shape: RowShape) -> Any:
    try:
        batch = decode(content, shape)
    except RecordError:
        return "no records"
    batch.validate(full=True)
    assert batch.schema == shape.schema
    return batch.to_pylist()


@fast_decoders
@settings(max_examples=250)
@given(content=st.lists(records(st.one_of(REGULAR, TAGGED, ODD))).map(b"".join), shape=shapes())
def test_all_decoders_make_the_same_rows(decode: Any, content: bytes, shape: RowShape) -> None:
    assert outcome(decode, content, shape) == outcome(decode_scalar, content, shape)


@fast_decoders
@settings(max_examples=250)
@given(content=st.lists(usual_records()).map(b"".join), shape=shapes(), has_all=st.booleans())
def test_usual_records_make_the_same_rows_too(
    decode: Any, content: bytes, shape: RowShape, has_all: bool
) -> None:
    if has_all:
        shape = shape._replace(first=0, stop=31)
    assert outcome(decode, content, shape) == outcome(decode_scalar, content, shape)


@fast_decoders
@settings(max_examples=100)
@given(
    parts=st.lists(records(REGULAR), min_size=1, max_size=4),
    at=st.integers(0, 1000),
    byte=st.integers(0, 255),
    cut=st.integers(0, 40),
    shape=shapes(),
)
def test_all_say_the_same_of_damaged_records(
    decode: Any, parts: list[bytes], at: int, byte: int, cut: int, shape: RowShape
) -> None:
    content = bytearray(b"".join(parts))
    content[at % len(content)] = byte
    damaged = bytes(content[: len(content) - cut])

    assert outcome(decode, damaged, shape) == outcome(decode_scalar, damaged, shape)


@fast_decoders
def test_the_usual_rows_never_take_the_slow_lane(
    monkeypatch: pytest.MonkeyPatch, decode: Any
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the reference was asked")

    monkeypatch.setattr("emberq.spark.decode.vector.build", refuse)
    monkeypatch.setattr("emberq.spark.decode.vector.decode_scalar", refuse)
    names = ("UNIQ_KEY", "KEYS", "TAGS", "WAIT", "CLUSTER", "TRACE_ON", "MSG_REGION", "colour")
    content = b"".join(
        encode_record(
            "orders",
            b"body",
            encode_properties({name: f"{name} {number}" for name in names}),
            queue_offset=number,
        )
        for number in range(100)
    )
    shape = RowShape(MESSAGES, "orders", "broker-a", 0, 100, DecodeOptions())

    batch = decode(content, shape)

    assert batch.num_rows == 100
    assert batch.column("keys").to_pylist()[7] == "KEYS 7"
    assert dict(batch.column("properties").to_pylist()[7])["colour"] == "colour 7"
    assert batch.schema.field("properties").type == pa.map_(pa.string(), pa.string())
    assert Column("properties", MAP) in shape.columns


@fast_decoders
def test_rows_with_more_properties_than_buckets_are_whole(decode: Any) -> None:
    properties = {"KEYS": "k", **{f"property-{number}": str(number) for number in range(70)}}
    content = b"".join(
        encode_record("orders", b"body", encode_properties(properties), queue_offset=number)
        for number in range(3)
    )
    shape = RowShape(MESSAGES, "orders", "broker-a", 0, 3, DecodeOptions())

    assert outcome(decode, content, shape) == outcome(decode_scalar, content, shape)


@fast_decoders
def test_odd_properties_that_nobody_wants_disturb_no_one(decode: Any) -> None:
    """Beside a row that is irregular for another reason."""
    packed = with_compression(0, CompressionType.ZLIB)
    content = encode_record("orders", b"plain", b"no marks") + encode_record(
        "orders", compress(b"packed", CompressionType.ZLIB), b"", queue_offset=1, system_flag=packed
    )
    columns = tuple(column for column in MESSAGES if column.name == "body")
    shape = RowShape(columns, "orders", "broker-a", 0, 2, DecodeOptions())

    assert decode(content, shape).to_pylist() == [{"body": b"plain"}, {"body": b"packed"}]


@pytest.mark.parametrize("decode", [decode_scalar, decode_vector, decode_compiled])
def test_damage_in_a_row_that_nobody_wants_disturbs_no_one(decode: Any) -> None:
    packed = with_compression(0, CompressionType.ZLIB)
    content = encode_record(
        "orders", b"no zlib", encode_properties({"TAGS": "green"}), system_flag=packed
    ) + encode_record("orders", b"b", encode_properties({"TAGS": "red"}), queue_offset=1)
    columns = tuple(column for column in MESSAGES if column.name == "body")
    options = DecodeOptions(tags=("red",))

    rows = decode(content, RowShape(columns, "orders", "broker-a", 0, 2, options)).to_pylist()

    assert rows == [{"body": b"b"}]


@pytest.mark.parametrize("decode", [decode_scalar, decode_vector, decode_compiled])
def test_bodies_that_stay_packed_may_be_packed_in_any_way(decode: Any) -> None:
    content = encode_record("orders", b"?", b"", system_flag=COMPRESSED | 7 << COMPRESSION_SHIFT)
    columns = tuple(column for column in MESSAGES if column.name == "body")
    options = DecodeOptions(is_decompressed=False)

    rows = decode(content, RowShape(columns, "orders", "broker-a", 0, 2, options)).to_pylist()

    assert rows == [{"body": b"?"}]


@pytest.mark.parametrize("decode", [decode_scalar, decode_vector, decode_compiled])
def test_a_delivery_time_of_thousands_of_digits_is_none(decode: Any) -> None:
    """Anybody may write such a property, and no query may fail on it."""
    texts = ["9" * 5_000, "1700000000000"]
    content = b"".join(
        encode_record(
            "orders", b"", encode_properties({"TIMER_DELIVER_MS": text}), queue_offset=number
        )
        for number, text in enumerate(texts)
    )
    columns = tuple(column for column in MESSAGES if column.name == "deliveryTimestamp")
    shape = RowShape(columns, "orders", "broker-a", 0, 2, DecodeOptions())

    times = decode(content, shape).column(0).to_pylist()

    assert [time if time is None else time.timestamp() for time in times] == [None, 1_700_000_000]


COLUMNS_OF_ONE_PASS = (
    *("topic", "brokerName", "queueId", "queueOffset", "keys", "tags", "body", "bornTimestamp"),
    *("storeTimestamp", "properties", "msgId", "bodyCrc", "uniqKey", "flag", "sysFlag", "size"),
    *("commitLogOffset", "reconsumeTimes", "preparedTransactionOffset"),
)


@pytest.mark.skipif(not HAS_COMPILED, reason="the decoder is not compiled here")
@pytest.mark.parametrize("body", [BINARY, STRING])
def test_one_pass_is_enough_for_the_usual_rows(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a second look was taken")

    monkeypatch.setattr("emberq.spark.decode.vector.find_compiled_frames", refuse)
    names = ("UNIQ_KEY", "KEYS", "TAGS", "WAIT", "CLUSTER", "TRACE_ON", "MSG_REGION", "colour")
    properties = encode_properties({name: f"{name} of some length" for name in names})
    content = b"".join(
        encode_record("orders", b"body", properties, queue_offset=number) for number in range(50)
    )
    known = {column.name: column for column in (*MESSAGES, Column("body", body))}
    columns = tuple(known[name] for name in COLUMNS_OF_ONE_PASS)

    batch = decode_compiled(content, RowShape(columns, "orders", "a", 0, 50, DecodeOptions()))

    assert batch.num_rows == 50
