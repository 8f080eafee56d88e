"""The operation queue: which half messages were ended, written as 5.5.0 writes it.

A message there names places in the half queue: 4.9 one (`17`), 5.x several (`17,18,`). Both are
read. Official brokers gather them for up to three seconds and lose them in a crash; here all ends
of one turn of the loop share a message.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

ENDED_TAG = "d"
SEPARATOR = b","
# Messages that are told apart; beyond that the newest are taken together.
MARKS_MAX = 4096
_DIGITS_MAX = 19


def encode_operations(offsets: Iterable[int], size_max: int) -> Iterator[tuple[bytes, int]]:
    """Bodies of at most `size_max` bytes, or of one offset, each with its highest offset."""
    parts: list[bytes] = []
    size = highest = 0
    for offset in offsets:
        part = b"%d," % offset
        if parts and size + len(part) > size_max:
            yield b"".join(parts), highest
            parts, size, highest = [], 0, 0
        parts.append(part)
        size += len(part)
        highest = max(highest, offset)
    if parts:
        yield b"".join(parts), highest


def parse_operations(body: bytes) -> list[int]:
    """Places in the half queue; what is no number is left out."""
    return [
        int(part) for part in body.split(SEPARATOR) if part.isdigit() and len(part) <= _DIGITS_MAX
    ]


class OperationMarks:
    """How far the operation queue may be forgotten: as far as it names settled half messages."""

    def __init__(self, offset: int) -> None:
        self.offset = offset  # of the first message that is still needed
        self.is_loaded = False
        # Behind a message, and the highest place that those up to it name.
        self._marks: deque[tuple[int, int]] = deque()

    def add(self, offset: int, highest_half: int) -> None:
        """A message of the queue, in order."""
        if len(self._marks) >= MARKS_MAX:
            _, before = self._marks.pop()
            highest_half = max(before, highest_half)
        self._marks.append((offset + 1, highest_half))

    def loaded(self, earlier: Sequence[tuple[int, int]]) -> None:
        """What stood in the queue before anything was added: offset and highest place of each."""
        later, self._marks = self._marks, deque()
        for offset, highest_half in earlier:
            self.add(offset, highest_half)
        self._marks += later
        self.is_loaded = True

    def advance(self, base: int) -> int:
        """Forget messages that name only places before `base`; returns the offset to keep from."""
        marks = self._marks
        while self.is_loaded and marks and marks[0][1] < base:
            self.offset = marks.popleft()[0]
        return self.offset
