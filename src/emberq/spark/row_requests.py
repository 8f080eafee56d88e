"""Messages of one queue as requests: batches of what may travel together, or one alone. Pure."""

from collections.abc import Callable, Iterator, Sequence

from emberq.client.core.message import Message
from emberq.client.core.outgoing import split_batch
from emberq.spark.row_rules import fits_together

# Unique keys of as many messages.
Keys = Callable[[int], Sequence[str]]


def requests_of(
    messages: Sequence[Message], keys: Keys, size_max_bytes: int
) -> Iterator[bytes | Message]:
    """In the order of the messages: elements of a batch, or a message that cannot be part of one,
    as it has a delay or fits without its properties only."""
    together: list[Message] = []
    for message in messages:
        if fits_together(message, size_max_bytes):
            together.append(message)
            continue
        yield from _batches(together, keys, size_max_bytes)
        together = []
        yield message
    yield from _batches(together, keys, size_max_bytes)


def _batches(messages: Sequence[Message], keys: Keys, size_max_bytes: int) -> Iterator[bytes]:
    with_keys = zip(messages, keys(len(messages)), strict=True)
    for piece in split_batch(with_keys, size_max_bytes):
        yield b"".join(element for element, _ in piece)
