"""The reference: one record after the other, by `emberq.record`, into lists, into Arrow."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa

from emberq.client.core.received import NEEDS_UNPACKING, unpacked
from emberq.errors import CompressionUnavailable, RecordError
from emberq.record import property_names
from emberq.record.compression import decompress
from emberq.record.decode import decode_record, read_size_and_magic
from emberq.record.host import format_host
from emberq.record.layout import SIZE_AND_MAGIC
from emberq.record.message_id import make_offset_id
from emberq.record.properties import decode_properties, find_property
from emberq.record.record import Record
from emberq.record.string_hash import tag_code
from emberq.record.system_flag import compression_type
from emberq.spark import columns as names
from emberq.spark.columns import Column
from emberq.spark.decode.shape import ARROW_TYPES, TIME_MAX_MS, RowShape, time_in_text

_UNIQUE, _TAGS, _KEYS = property_names.UNIQUE_KEY, property_names.TAGS, property_names.KEYS
_DELIVER = property_names.TIMER_DELIVER_MS


class Row:
    """A message; what costs something is made when a column asks for it."""

    __slots__ = ("_text", "record", "shape")

    def __init__(self, record: Record, shape: RowShape) -> None:
        self.record = record
        self.shape = shape
        self._text: str | None = None

    @property
    def text(self) -> str:
        """Properties as stored."""
        if self._text is None:
            self._text = self.record.properties.decode("utf-8", "replace")
        return self._text

    def value_of(self, name: str) -> str | None:
        return find_property(self.text, name)

    @property
    def body(self) -> bytes:
        record = self.record
        if not self.shape.options.is_decompressed:
            return bytes(record.body)
        kind = compression_type(record.system_flag)
        return bytes(record.body) if kind is None else decompress(record.body, kind)


def decode_scalar(content: bytes | memoryview, shape: RowShape) -> Any:
    """One batch of all rows of the shape's range. Raises RecordError, UnfoldsTooFar."""
    return build(rows_of(memoryview(content), shape), shape)


def decode_sound_records(content: bytes, shape: RowShape) -> Any:
    """The same without the records that cannot be read; they are stepped over by their sizes.

    Raises:
        CompressionUnavailable: which is no damage.
    """
    view = memoryview(content)
    rows: list[Row] = []
    for start, stop in pairwise(record_edges(view)):
        try:
            found = rows_of(view[start:stop], shape)
            build(found, shape)
        except CompressionUnavailable:
            raise
        except RecordError:
            found = []
        rows += found
    return build(rows, shape)


def rows_of(view: memoryview, shape: RowShape) -> list[Row]:
    rows: list[Row] = []
    unfolded_bytes = 0
    for record in records_of(view):
        is_batch = record.system_flag & NEEDS_UNPACKING == NEEDS_UNPACKING
        for each in unpacked(record) if is_batch else (record,):
            if is_batch:
                unfolded_bytes += len(each.body)
                shape.check_unfolded(unfolded_bytes)
            row = Row(each, shape)
            if shape.first <= each.queue_offset < shape.stop and _is_wanted(row, shape):
                rows.append(row)
    return rows


def record_edges(view: memoryview) -> Iterator[int]:
    """Where records begin, going by the sizes they say, and where the last of them ends."""
    position = 0
    yield position
    while position + SIZE_AND_MAGIC.size <= len(view):
        position += max(SIZE_AND_MAGIC.size, read_size_and_magic(view, position)[0])
        yield position


def records_of(view: memoryview) -> Iterator[Record]:
    position = 0
    while position < len(view):
        record = decode_record(view, position, is_crc_checked=False)
        yield record
        position += record.size_bytes


def build(rows: list[Row], shape: RowShape) -> Any:
    arrays = [_array(column, rows) for column in shape.columns]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=shape.schema)


def _array(column: Column, rows: list[Row]) -> Any:
    kind = ARROW_TYPES[column.type]
    if column.name == "body":
        maker = _body_text if column.type == names.STRING else _MAKERS["body"]
        return pa.array(list(_bodies(rows, maker)), kind)
    if column.type == names.TIMESTAMP:
        return pa.array(list(map(_TIMES[column.name], rows)), pa.int64()).cast(kind)
    maker = _MAKERS[column.name]
    if column.name == "properties" and column.type == names.MAP:
        maker = _map
    return pa.array(list(map(maker, rows)), kind)


def _is_wanted(row: Row, shape: RowShape) -> bool:
    tags = shape.options.tags
    return not tags or row.value_of(_TAGS) in tags


def _bodies(
    rows: list[Row], maker: Callable[[Row], bytes | str | None]
) -> Iterator[bytes | str | None]:
    """Told to stop before all of them are in memory."""
    unfolded_bytes = 0
    for row in rows:
        body = maker(row)
        unfolded_bytes += len(body or b"")
        row.shape.check_unfolded(unfolded_bytes)
        yield body


def _body_text(row: Row) -> str | None:
    try:
        return row.body.decode()
    except UnicodeDecodeError:
        return None


def _map(row: Row) -> list[tuple[str, str]]:
    return list(decode_properties(row.record.properties).items())


def _message_id(row: Row) -> str:
    record = row.record
    return row.value_of(_UNIQUE) or make_offset_id(record.store_host, record.log_offset)


def _time_us(time_ms: int) -> int | None:
    return time_ms * 1000 if 0 <= time_ms <= TIME_MAX_MS else None


def _delivery(row: Row) -> int | None:
    return _time_us(time_in_text(row.value_of(_DELIVER)))


def host_text(packed: bytes) -> str | None:
    try:
        return format_host(packed)
    except RecordError:  # a port that is none
        return None


_TIMES: dict[str, Callable[[Row], int | None]] = {
    "bornTimestamp": lambda row: _time_us(row.record.born_at_ms),
    "storeTimestamp": lambda row: _time_us(row.record.stored_at_ms),
    "deliveryTimestamp": _delivery,
}
_MAKERS: dict[str, Callable[[Row], Any]] = {
    "topic": lambda row: row.shape.topic,
    "brokerName": lambda row: row.shape.broker_name,
    "queueId": lambda row: row.record.queue_id,
    "queueOffset": lambda row: row.record.queue_offset,
    "keys": lambda row: row.value_of(_KEYS),
    "tags": lambda row: row.value_of(_TAGS),
    "body": lambda row: row.body,
    "properties": lambda row: row.text,
    "msgId": _message_id,
    "uniqKey": lambda row: row.value_of(_UNIQUE),
    "bornHost": lambda row: host_text(row.record.born_host),
    "storeHost": lambda row: host_text(row.record.store_host),
    "flag": lambda row: row.record.flag,
    "sysFlag": lambda row: row.record.system_flag,
    "reconsumeTimes": lambda row: row.record.reconsume_times,
    "bodyCrc": lambda row: row.record.body_crc - ((row.record.body_crc & 0x8000_0000) << 1),
    "size": lambda row: row.record.size_bytes,
    "tagsHash": lambda row: tag_code(row.value_of(_TAGS)),
    "commitLogOffset": lambda row: row.record.log_offset,
    "preparedTransactionOffset": lambda row: row.record.prepared_offset,
}
