"""Batches on their way to Spark."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.errors import CompressionUnavailable, RecordError
from emberq.record import compression
from emberq.record.batch import BatchElement, encode_batch
from emberq.record.compression import compress
from emberq.record.encode import encode_record
from emberq.record.system_flag import INNER_BATCH, NEEDS_UNWRAP, CompressionType, with_compression
from emberq.spark.columns import Column
from emberq.spark.decode.shape import RowShape
from emberq.spark.options import BATCH_BYTES, DecodeOptions
from emberq.spark.rows import DECODED_TOGETHER_BYTES, decode, decoded, gathered

ROWS_MAX = 100
LIMITS = DecodeOptions(batch_rows=ROWS_MAX)


def batch_of(numbers: list[int]) -> Any:
    maps = [[(f"k{number}", "v")] for number in numbers]
    columns = [pa.array(numbers, pa.int64()), pa.array(maps, pa.map_(pa.string(), pa.string()))]
    return pa.RecordBatch.from_arrays(columns, ["number", "properties"])


@given(st.lists(st.integers(1, ROWS_MAX), max_size=12))
def test_small_batches_are_put_together_with_all_rows_in_their_order(counts: list[int]) -> None:
    edges = [sum(counts[:number]) for number in range(len(counts) + 1)]
    batches = [batch_of(list(range(low, low + n))) for low, n in zip(edges, counts, strict=False)]

    made = list(gathered(batches, LIMITS))

    assert [row for batch in made for row in batch.to_pylist()] == [
        row for batch in batches for row in batch.to_pylist()
    ]
    assert all(batch.num_rows <= ROWS_MAX for batch in made)
    pairs = pairwise(made)
    assert all(left.num_rows + right.num_rows > ROWS_MAX for left, right in pairs)


def test_large_batches_go_on_as_they_are() -> None:
    large = pa.RecordBatch.from_arrays([pa.array([bytes(DECODED_TOGETHER_BYTES)])], ["body"])

    made = list(gathered([large, large], LIMITS))

    assert [each is large for each in made] == [True, True]


@given(
    st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=30), max_size=6),
    st.integers(1, 2_000),
)
def test_no_batch_has_more_bytes_than_it_may_but_a_single_row(
    sizes: list[list[int]], bytes_max: int
) -> None:
    batches = [
        pa.RecordBatch.from_arrays([pa.array([bytes(size) for size in own])], ["body"])
        for own in sizes
    ]

    made = list(gathered(batches, DecodeOptions(batch_rows=ROWS_MAX, batch_bytes=bytes_max)))

    assert all(batch.nbytes <= bytes_max or batch.num_rows == 1 for batch in made)
    bodies = [len(body.as_py()) for batch in made for body in batch.column(0)]
    assert bodies == [size for own in sizes for size in own]


def test_what_is_usually_decoded_together_goes_on_uncut() -> None:
    assert BATCH_BYTES // 2 == DECODED_TOGETHER_BYTES


# Compressed bodies

COLUMNS = (Column("queueOffset", "bigint"), Column("body", "binary"))
decoders = pytest.mark.parametrize("decoder", ["auto", "vector", "scalar"])


def shape_of(
    unfolded_max_bytes: int | None = None, *, fails_on_damage: bool = True, decoder: str = "auto"
) -> RowShape:
    options = DecodeOptions(fails_on_damage=fails_on_damage, decoder=decoder)
    return RowShape(COLUMNS, "orders", "broker-a", 0, 100, options, unfolded_max_bytes)


def packed(body: bytes, offset: int, kind: CompressionType = CompressionType.ZLIB) -> bytes:
    flag = with_compression(0, kind)
    return encode_record("orders", compress(body, kind), queue_offset=offset, system_flag=flag)


def plain(body: bytes, offset: int) -> bytes:
    return encode_record("orders", body, queue_offset=offset)


def bodies_in(batches: Any) -> list[list[int]]:
    """Sizes of bodies, batch by batch, of rows that are all there in their order."""
    rows = [batch.to_pydict() for batch in batches]
    offsets = [offset for batch in rows for offset in batch["queueOffset"]]
    assert offsets == sorted(offsets)
    return [[len(body) for body in batch["body"]] for batch in rows]


@decoders
def test_bodies_that_unfold_far_are_decoded_a_few_at_a_time(decoder: str) -> None:
    shape = shape_of(2_500, decoder=decoder)
    content = b"".join(packed(bytes(1_000), offset) for offset in range(9)) + plain(b"x", 9)

    sizes = bodies_in(decoded(content, shape))

    assert [size for own in sizes for size in own] == [1_000] * 9 + [1]
    assert all(sum(own) <= 2_500 for own in sizes)


@decoders
def test_one_body_that_is_larger_alone_is_a_batch_of_its_own(decoder: str) -> None:
    content = plain(b"x", 0) + packed(bytes(9_000), 1) + plain(b"y", 2)

    assert bodies_in(decoded(content, shape_of(2_500, decoder=decoder))) == [[1], [9_000], [1]]


def test_so_are_batches_inside_of_records() -> None:
    packed_batch = compress(encode_batch([BatchElement(bytes(900), b"")] * 3), CompressionType.ZLIB)
    flag = with_compression(INNER_BATCH | NEEDS_UNWRAP, CompressionType.ZLIB)
    content = b"".join(
        encode_record("orders", packed_batch, queue_offset=offset, system_flag=flag)
        for offset in (0, 3)
    )

    assert bodies_in(decoded(content, shape_of(2_500))) == [[900] * 3, [900] * 3]


def test_what_unfolds_little_stays_one_batch() -> None:
    content = b"".join(packed(bytes(100), offset) for offset in range(9))

    assert bodies_in(decoded(content, shape_of(2_500))) == [[100] * 9]


def test_damage_among_bodies_that_unfold_far_takes_only_itself_along() -> None:
    flag = with_compression(0, CompressionType.ZLIB)
    damaged = encode_record("orders", b"no zlib", queue_offset=1, system_flag=flag)
    content = packed(bytes(2_000), 0) + damaged + packed(bytes(2_000), 2)

    assert bodies_in(decoded(content, shape_of(2_500, fails_on_damage=False))) == [
        [2_000],
        [2_000],
    ]
    with pytest.raises(RecordError, match="orders broker-a, offsets 0 to 100: damaged zlib body"):
        list(decoded(content, shape_of(2_500)))


@pytest.mark.parametrize(
    ("fails_on_damage", "is_damaged_too"), [(True, False), (False, False), (False, True)]
)
def test_a_codec_that_is_not_installed_is_an_error_and_no_damage(
    monkeypatch: pytest.MonkeyPatch, *, fails_on_damage: bool, is_damaged_too: bool
) -> None:
    """Without it a lenient query would leave intact messages out, and commit."""
    content = packed(b"x", 0, CompressionType.LZ4)
    if is_damaged_too:
        flag = with_compression(0, CompressionType.ZLIB)
        content = encode_record("orders", b"no zlib", system_flag=flag) + content

    def missing() -> Any:
        raise compression._unavailable("LZ4")

    monkeypatch.setattr(compression, "_lz4_frame", missing)
    shape = shape_of(fails_on_damage=fails_on_damage)

    with pytest.raises(CompressionUnavailable) as error:
        decode(content, shape)
    assert str(error.value) == (
        "orders broker-a, offsets 0 to 100: LZ4 bodies need an optional package: "
        'pip install "emberq[compression]" on every machine that runs tasks, or read with '
        "decompress=false"
    )
