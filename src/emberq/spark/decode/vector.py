"""Whole columns at once with numpy and Arrow; equal to the reference, row for row.

Where records and properties lie is found by numpy (`decode_vector`) or by compiled loops
(`decode_compiled`); the columns are the same. Records that are as they usually are the compiled
loops decode in one pass (`usual`).

Rows that are irregular (compressed bodies, odd properties) are made by the reference and put in
their places. Bytes that are not plainly records, and batches inside a record, are left to it
entirely: it either knows them or says what is wrong.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from emberq.client.core.received import NEEDS_UNPACKING
from emberq.record import property_names
from emberq.record.decode import decode_record
from emberq.record.host import PackedHost
from emberq.record.message_id import make_offset_id
from emberq.record.string_hash import tag_code
from emberq.record.system_flag import COMPRESSED
from emberq.spark import columns as names
from emberq.spark.columns import Column
from emberq.spark.decode.bytes_at import Bools, Ints, is_text, repeated, time_array, values_of
from emberq.spark.decode.compiled_at import (
    CompiledBytes,
    CompiledItems,
    compiled_loops,
    find_compiled_frames,
)
from emberq.spark.decode.frames import BORN_TIME_POSITION, Frames, find_frames
from emberq.spark.decode.property_items import PropertyItems, irregular_rows, split_properties
from emberq.spark.decode.scalar import Row, build, decode_scalar, host_text
from emberq.spark.decode.shape import ARROW_TYPES, HEAD_NUMBERS, RowShape, time_in_text
from emberq.spark.decode.usual import usual_batch

_FROM_ITEMS = ("keys", "tags", "uniqKey", "msgId", "tagsHash", "deliveryTimestamp")
_TAGS = Column("tags", names.STRING)
_LOOPS = compiled_loops()
HAS_COMPILED = _LOOPS is not None


def decode_vector(content: bytes, shape: RowShape) -> Any:
    """One batch of all rows of the shape's range. Raises RecordError, UnfoldsTooFar."""
    return _decode_found(find_frames(content), content, shape)


def decode_compiled(content: bytes, shape: RowShape) -> Any:
    """The same by compiled loops, or by numpy where there are none."""
    if _LOOPS is None:
        return decode_vector(content, shape)
    usual = usual_batch(content, shape, _LOOPS)
    if usual is not None:
        return usual
    return _decode_found(find_compiled_frames(content, _LOOPS), content, shape)


def _decode_found(frames: Frames | None, content: bytes, shape: RowShape) -> Any:
    if frames is None or _has_batches(frames):
        return decode_scalar(content, shape)
    return decode_frames(frames, shape)


def decode_frames(frames: Frames, shape: RowShape) -> Any:
    """The same where it is known where the records lie."""
    is_inside = (frames.queue_offsets >= shape.first) & (frames.queue_offsets < shape.stop)
    if not is_inside.all():
        frames = frames.only(is_inside)
    if not shape.options.tags:
        return _decode(frames, shape)
    if _unpacked_rows(frames, shape).any():
        # What nobody wants is not unpacked, and its damage is nobody's.
        found = _decode(frames, shape._replace(columns=(_TAGS,)))
        return _decode(frames.only(_are_wanted(found, shape).to_numpy(zero_copy_only=False)), shape)
    whole = shape
    if not shape.wants("tags"):
        whole = shape._replace(columns=(*shape.columns, _TAGS))
    batch = _decode(frames, whole)
    wanted = batch.filter(_are_wanted(batch, shape))
    return wanted.select([column.name for column in shape.columns])


def _are_wanted(batch: Any, shape: RowShape) -> Any:
    return pc.is_in(batch.column("tags"), value_set=pa.array(shape.options.tags, pa.string()))


def _unpacked_rows(frames: Frames, shape: RowShape) -> Bools:
    if shape.wants("body") and shape.options.is_decompressed:
        are_packed: Bools = (frames.system_flags & COMPRESSED) != 0
        return are_packed
    return np.zeros(len(frames), np.bool_)


def _decode(frames: Frames, shape: RowShape) -> Any:
    is_irregular = _unpacked_rows(frames, shape)
    if not shape.wants("properties", *_FROM_ITEMS):
        return _with_lane(frames, shape, is_irregular, None)
    if not _needs_items(shape):
        texts = _texts(frames)
        if not is_text(*_content_and_starts(texts)):
            is_irregular |= irregular_rows(texts)
        return _with_lane(frames, shape, is_irregular, None)
    items, are_odd = _items(frames)
    return _with_lane(frames, shape, is_irregular | are_odd, items)


def _needs_items(shape: RowShape) -> bool:
    return shape.wants(*_FROM_ITEMS) or Column("properties", names.MAP) in shape.columns


def _items(frames: Frames) -> tuple[PropertyItems | CompiledItems | None, Bools]:
    """The properties, and which rows are irregular; None: some are, ask again without those."""
    if isinstance(frames.content, CompiledBytes):
        return frames.content.items(frames.properties_at, frames.ends)
    are_odd = np.zeros(len(frames), np.bool_)
    texts = _texts(frames)
    items = split_properties(texts)
    if items is None:  # some row is irregular, or only looked so: names may share a bucket
        are_odd = irregular_rows(texts)
        if not are_odd.any():
            items = split_properties(texts, is_checked=True)
    return items, are_odd


def _with_lane(
    frames: Frames,
    shape: RowShape,
    is_irregular: Bools,
    items: PropertyItems | CompiledItems | None,
) -> Any:
    """Regular rows in columns, the others one by one, and all in their order."""
    if not is_irregular.any():
        return _Columns(frames, shape, items).batch()
    regular = np.flatnonzero(~is_irregular)
    others = np.flatnonzero(is_irregular)
    lane = build([_row(frames, number, shape) for number in others.tolist()], shape)
    if len(regular) == 0:
        return lane
    kept = frames.only(regular)
    # Where nobody asked for items nobody has looked at the properties.
    columns = _Columns(kept, shape, _regular_items(kept) if _needs_items(shape) else None).batch()
    order = np.empty(len(frames), np.int64)
    order[regular] = np.arange(len(regular))
    order[others] = len(regular) + np.arange(len(others))
    together = pa.Table.from_batches([columns, lane]).combine_chunks()
    return together.take(pa.array(order)).combine_chunks().to_batches()[0]


def _regular_items(frames: Frames) -> PropertyItems | CompiledItems | None:
    if isinstance(frames.content, CompiledBytes):
        return frames.content.items(frames.properties_at, frames.ends)[0]
    return split_properties(_texts(frames), is_checked=True)


class _Columns:
    """The columns of regular rows."""

    def __init__(
        self, frames: Frames, shape: RowShape, items: PropertyItems | CompiledItems | None
    ) -> None:
        self._frames = frames
        self._shape = shape
        self._items = items
        self._found: dict[str, Any] = {}

    def batch(self) -> Any:
        arrays = [self._column(column) for column in self._shape.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._shape.schema)

    def _column(self, column: Column) -> Any:
        kind = ARROW_TYPES[column.type]
        number = HEAD_NUMBERS.get(column.name)
        if number is not None:
            layout, position = number
            return self._frames.content.number_column(layout, self._frames.starts + position, kind)
        return _MAKERS[column.name](self, column)

    def constant(self, text: str) -> Any:
        return repeated(text, len(self._frames))

    def body(self, column: Column) -> Any:
        frames = self._frames
        bodies = frames.content.slices(pa.binary(), frames.body_at, frames.body_end)
        if column.type == names.BINARY:
            return bodies
        if is_text(*_content_and_starts(bodies)):
            return bodies.view(pa.string())
        return pa.array([_text_or_none(body) for body in bodies.to_pylist()], pa.string())

    def properties(self, column: Column) -> Any:
        if column.type == names.STRING:
            return _texts(self._frames).view(pa.string())
        return self._some_items.map_array()

    def value_of(self, name: str) -> Any:
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._some_items.column(name)
        return found

    @property
    def _some_items(self) -> PropertyItems | CompiledItems:
        assert self._items is not None
        return self._items

    def reconsume_times(self) -> Any:
        frames = self._frames
        return frames.content.number_column(">i4", frames.body_at - 16, pa.int32())

    def prepared_offset(self) -> Any:
        frames = self._frames
        return frames.content.number_column(">i8", frames.body_at - 12, pa.int64())

    def born_time(self) -> Any:
        frames = self._frames
        return frames.content.time_column(frames.starts + BORN_TIME_POSITION)

    def store_time(self) -> Any:
        return self._frames.content.time_column(self._frames.store_time_at)

    def delivery_time(self) -> Any:
        texts = self.value_of(property_names.TIMER_DELIVER_MS).to_pylist()
        return time_array(np.array([time_in_text(text) for text in texts], np.int64))

    def hosts(self, starts: Ints, ends: Ints) -> Any:
        """Few peers send many messages: each address is written once."""
        packed = self._frames.content.slices(pa.binary(), starts, ends).dictionary_encode()
        texts = [host_text(PackedHost(host)) for host in packed.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(packed.indices)

    def born_host(self) -> Any:
        frames = self._frames
        return self.hosts(frames.starts + 48, frames.store_time_at)

    def store_host(self) -> Any:
        frames = self._frames
        return self.hosts(frames.store_host_at, frames.body_at - 16)

    def message_id(self) -> Any:
        keys = self.value_of(property_names.UNIQUE_KEY)
        if keys.null_count == 0:
            return keys
        frames = self._frames
        hosts = frames.content.slices(pa.binary(), frames.store_host_at, frames.body_at - 16)
        triples = zip(keys.to_pylist(), hosts.to_pylist(), frames.log_offsets.tolist(), strict=True)
        return pa.array(
            [key or make_offset_id(PackedHost(host), offset) for key, host, offset in triples],
            pa.string(),
        )

    def tags_hash(self) -> Any:
        tags = self.value_of(property_names.TAGS).dictionary_encode()
        codes = pa.array([tag_code(tag) for tag in tags.dictionary.to_pylist()], pa.int64())
        return pc.fill_null(codes.take(tags.indices), 0)


_MAKERS: dict[str, Callable[[_Columns, Column], Any]] = {
    "topic": lambda made, _: made.constant(made._shape.topic),
    "brokerName": lambda made, _: made.constant(made._shape.broker_name),
    "keys": lambda made, _: made.value_of(property_names.KEYS),
    "tags": lambda made, _: made.value_of(property_names.TAGS),
    "uniqKey": lambda made, _: made.value_of(property_names.UNIQUE_KEY),
    "body": _Columns.body,
    "properties": _Columns.properties,
    "bornTimestamp": lambda made, _: made.born_time(),
    "storeTimestamp": lambda made, _: made.store_time(),
    "deliveryTimestamp": lambda made, _: made.delivery_time(),
    "msgId": lambda made, _: made.message_id(),
    "bornHost": lambda made, _: made.born_host(),
    "storeHost": lambda made, _: made.store_host(),
    "reconsumeTimes": lambda made, _: made.reconsume_times(),
    "preparedTransactionOffset": lambda made, _: made.prepared_offset(),
    "tagsHash": lambda made, _: made.tags_hash(),
}


def _texts(frames: Frames) -> Any:
    return frames.content.slices(pa.binary(), frames.properties_at, frames.ends)


def _row(frames: Frames, number: int, shape: RowShape) -> Row:
    start = int(frames.starts[number])
    return Row(decode_record(frames.content.view, start, is_crc_checked=False), shape)


def _has_batches(frames: Frames) -> bool:
    return bool(((frames.system_flags & NEEDS_UNPACKING) == NEEDS_UNPACKING).any())


def _content_and_starts(array: Any) -> tuple[Any, Ints]:
    content, offsets = values_of(array)
    return content, offsets[:-1]


def _text_or_none(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
