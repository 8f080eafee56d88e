"""Records as they usually are: one pass of compiled loops makes all columns.

A decoder that makes one column after the other looks at each record many times, and between two
tasks of Spark nothing of it is in the processor's caches. Whatever is out of the ordinary, in a
record or in what is asked for, is left to those who find things first and make columns then.
"""

import functools
from typing import Any, NamedTuple

import pyarrow as pa

from emberq.client.core.received import NEEDS_UNPACKING
from emberq.record import property_names
from emberq.record.system_flag import COMPRESSED, HOSTS_IPV6_MASK
from emberq.spark import columns as names
from emberq.spark.columns import Column
from emberq.spark.decode.bytes_at import is_text, repeated, values_of
from emberq.spark.decode.compiled_at import texts_array
from emberq.spark.decode.shape import ARROW_TYPES, HEAD_NUMBERS, RowShape

# With hosts of IPv4.
_NUMBERS = {
    **{name: (at, int(layout[-1])) for name, (layout, at) in HEAD_NUMBERS.items()},
    "reconsumeTimes": (72, 4),
    "preparedTransactionOffset": (76, 8),
}
_TIMES = {"bornTimestamp": 40, "storeTimestamp": 56}
_PROPERTIES = {
    "keys": property_names.KEYS.encode(),
    "tags": property_names.TAGS.encode(),
    "uniqKey": property_names.UNIQUE_KEY.encode(),
    "msgId": property_names.UNIQUE_KEY.encode(),
}
_MAP = Column("properties", names.MAP)
_CONSTANTS = ("topic", "brokerName")


class _Plan(NamedTuple):
    """What is asked of the loops, each column with its place in the answer."""

    numbers: tuple[str, ...]
    times: tuple[str, ...]
    has_body: bool
    has_map: bool
    properties: tuple[bytes, ...]


def usual_batch(content: bytes, shape: RowShape, loops: Any) -> Any | None:
    """One batch of all records; None: they have to be looked at more closely."""
    plan = _plan_of(shape.columns)
    if plan is None or shape.options.tags:
        return None
    refused = HOSTS_IPV6_MASK | NEEDS_UNPACKING
    if plan.has_body and shape.options.is_decompressed:
        refused |= COMPRESSED
    made = loops.usual_rows(
        content,
        shape.first,
        shape.stop,
        refused,
        tuple(_NUMBERS[name] for name in plan.numbers),
        tuple(_TIMES[name] for name in plan.times),
        plan.has_body,
        plan.has_map,
        plan.properties,
    )
    return None if made is None else _batch(plan, shape, *made)


@functools.lru_cache(maxsize=16)
def _plan_of(columns: tuple[Column, ...]) -> _Plan | None:
    """None: some column is not made here."""
    wanted = {column.name for column in columns if column != _MAP}
    if not wanted <= {*_NUMBERS, *_TIMES, *_PROPERTIES, *_CONSTANTS, "body"}:
        return None
    return _Plan(
        tuple(name for name in _NUMBERS if name in wanted),
        tuple(name for name in _TIMES if name in wanted),
        "body" in wanted,
        _MAP in columns,
        tuple(sorted({_PROPERTIES[name] for name in wanted & _PROPERTIES.keys()})),
    )


def _batch(
    plan: _Plan,
    shape: RowShape,
    count: int,
    numbers: list[bytearray],
    times: list[bytearray],
    body: tuple[bytearray, bytearray] | None,
    items: Any,
    properties: list[tuple[bytearray | None, bytearray, bytearray]],
) -> Any | None:
    made: dict[str, Any] = {"topic": shape.topic, "brokerName": shape.broker_name}
    made |= {name: repeated(made[name], count) for name in _CONSTANTS if shape.wants(name)}
    types = {column.name: ARROW_TYPES[column.type] for column in shape.columns}
    for name, values in zip((*plan.numbers, *plan.times), (*numbers, *times), strict=True):
        made[name] = pa.Array.from_buffers(types[name], count, [None, pa.py_buffer(values)])
    if body is not None:
        made["body"] = bodies = texts_array(pa.binary(), None, *body)
        if types["body"] == pa.string():
            content, offsets = values_of(bodies)
            if not is_text(content, offsets[:-1]):
                return None
            made["body"] = bodies.view(pa.string())
    if items is not None:
        firsts, item_names, item_values = items
        made["properties"] = pa.MapArray.from_arrays(
            pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(firsts)]),
            texts_array(pa.string(), None, *item_names),
            texts_array(pa.string(), None, *item_values),
        )
    texts = dict(zip(plan.properties, properties, strict=True))
    for name in types.keys() & _PROPERTIES.keys():
        validity, *rest = texts[_PROPERTIES[name]]
        if name == "msgId" and validity is not None:
            return None  # where there is no key, the id is made of host and place
        made[name] = texts_array(pa.string(), validity, *rest)
    return pa.RecordBatch.from_arrays([made[name] for name in types], schema=shape.schema)
