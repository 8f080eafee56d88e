"""Batches whose messages are stored once: which of them are new. Pure."""

from collections.abc import Collection

from emberq.errors import ProtocolError, RecordError
from emberq.record.batch import iter_batch
from emberq.record.layout import BATCH_ELEMENT_SIZE_MIN
from emberq.record.properties import find_stored_property
from emberq.record.property_names import UNIQUE_KEY

_UNIQUE_KEY = UNIQUE_KEY.encode()


def unique_keys(body: bytes) -> list[str]:
    """The ids of a batch's messages, in their order.

    Raises:
        ProtocolError: the body is no batch, or a message has no id.
    """
    keys: list[str] = []
    try:
        for element in iter_batch(memoryview(body)):
            key = find_stored_property(element.properties, _UNIQUE_KEY)
            if not key:
                raise ProtocolError(f"message {len(keys)} of the batch has no {UNIQUE_KEY}")
            keys.append(key.decode(errors="replace"))
    except RecordError as error:
        raise ProtocolError(f"the body is no batch: {error}") from None
    return keys


def new_messages(body: bytes, keys: Collection[str], stored: Collection[str]) -> bytes:
    """The batch without messages that are stored, and without a second one of any id."""
    seen = set(stored)
    kept = []
    position = 0
    for element, key in zip(iter_batch(memoryview(body)), keys, strict=True):
        end = position + BATCH_ELEMENT_SIZE_MIN + len(element.body) + len(element.properties)
        if key not in seen:
            seen.add(key)
            kept.append(body[position:end])
        position = end
    return b"".join(kept)
