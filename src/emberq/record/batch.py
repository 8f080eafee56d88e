"""Several messages as the body of one send request, before the broker makes records of them.

The layout is docs/formats/batch.md.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from emberq.errors import RecordError
from emberq.record.layout import (
    BATCH_ELEMENT_SIZE_MIN,
    BATCH_PREFIX,
    LENGTH_16,
    PROPERTIES_SIZE_MAX,
    RECORD_SIZE_MAX,
    BytesLike,
)


# By position and outside the garbage collector, for the same reasons as `Record`.
class BatchElement(Struct, frozen=True, gc=False):
    """A message inside a batch; topic, queue and times come from the request around it."""

    body: bytes | memoryview
    properties: bytes = b""
    flag: int = 0


def encode_batch_element(body: BytesLike, properties: bytes = b"", flag: int = 0) -> bytes:
    """Return one message of a batch.

    Raises:
        RecordError: the properties or the flag do not fit.
    """
    body_size, properties_size = len(body), len(properties)
    size = BATCH_ELEMENT_SIZE_MIN + body_size + properties_size
    if properties_size > PROPERTIES_SIZE_MAX:
        raise RecordError(f"properties of {properties_size} bytes, at most {PROPERTIES_SIZE_MAX}")
    if size > RECORD_SIZE_MAX or not -(1 << 31) <= flag < 1 << 31:
        raise RecordError(f"message of {size} bytes with flag {flag} does not fit a batch")
    # Magic and checksum are 0: the broker computes its own.
    head = BATCH_PREFIX.pack(size, 0, 0, flag, body_size)
    return b"".join((head, body, LENGTH_16.pack(properties_size), properties))


def encode_batch_alike(bodies: Sequence[bytes], properties: Sequence[bytes]) -> bytes:
    """Several messages without flags, whose properties are all of one size: what
    `encode_batch_element` makes of each, one behind the other, in a third of the time.

    Raises:
        RecordError: properties do not fit.
    """
    text_size = len(properties[0])
    if text_size > PROPERTIES_SIZE_MAX:
        raise RecordError(f"properties of more than {PROPERTIES_SIZE_MAX} bytes")
    length = LENGTH_16.pack(text_size)
    rest_size = BATCH_ELEMENT_SIZE_MIN + text_size
    heads = {
        size: BATCH_PREFIX.pack(rest_size + size, 0, 0, 0, size) for size in set(map(len, bodies))
    }
    parts: list[bytes] = []
    for body, text in zip(bodies, properties, strict=True):
        parts += (heads[len(body)], body, length, text)
    return b"".join(parts)


def encode_batch(elements: Iterable[BatchElement]) -> bytes:
    """Return the body of a batch request."""
    return b"".join(
        encode_batch_element(element.body, element.properties, element.flag) for element in elements
    )


def batch_element_size(body: BytesLike, properties: str, flag: int) -> int:
    """How long a message will be as part of a batch.

    Raises:
        RecordError: the flag does not fit.
    """
    if flag and not -(1 << 31) <= flag < 1 << 31:
        raise RecordError(f"the flag {flag} does not fit a batch")
    size = len(properties) if properties.isascii() else len(properties.encode())
    return BATCH_ELEMENT_SIZE_MIN + len(body) + size


def iter_batch(content: bytes | memoryview) -> Iterator[BatchElement]:
    """Yield the messages of a batch body; from a memoryview their bodies are views.

    Official brokers walk by the inner lengths and never look at the total size. Here both must
    agree: a batch that contradicts itself is not what any producer meant to send.

    Raises:
        RecordError: at the first bytes that are no message; those before it were yielded.
    """
    position = 0
    content_size = len(content)
    while position < content_size:
        body_start = position + BATCH_PREFIX.size
        if body_start + LENGTH_16.size > content_size:
            raise RecordError(f"the batch message at {position} is cut off")
        size, _, _, flag, body_size = BATCH_PREFIX.unpack_from(content, position)
        end = position + size
        body_end = body_start + body_size
        properties_start = body_end + LENGTH_16.size
        if end > content_size or body_size < 0 or properties_start > end:
            raise _lengths_disagree(position, size)
        if LENGTH_16.unpack_from(content, body_end)[0] != end - properties_start:
            raise _lengths_disagree(position, size)
        yield BatchElement(content[body_start:body_end], bytes(content[properties_start:end]), flag)
        position = end


def _lengths_disagree(position: int, size: int) -> RecordError:
    return RecordError(
        f"the batch message at {position} announces {size} bytes, which its lengths or the end of "
        "the batch contradict"
    )
