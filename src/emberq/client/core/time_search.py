"""The first message of a queue that was stored at or after a time, found by asking for one message
after the other. Who asks, and how, is not known here. Store times never decrease along a queue.

Official brokers have a request for it (29), but only later ones of 5.x keep to that meaning: 4.9
answers any of several messages of the same time, else the nearer neighbour, the last one included.
Their answer is good enough to begin with.
"""

# Places without a readable message that are walked over before what lies there counts as older.
GAPS_MAX = 32


class TimeSearch:
    """Ask for the message at `next_offset` and say what came, until there is no next offset.

    From the guess on it looks further and further away, then halves what is left: of n messages
    between guess and answer, about twice log2(n) are asked for.
    """

    def __init__(self, time_ms: int, min_offset: int, max_offset: int, guess: int) -> None:
        self._time_ms = time_ms
        # Messages before `_low` are older; those from `_high` on are not, and the first of them
        # that is there is `_found`.
        self._low = min_offset
        self._high = self._found = max_offset
        self._has_older = self._has_later = False
        self._stride = 1
        self._gaps = 0
        self._aim = self._at = max(min_offset, min(guess, max_offset - 1))

    @property
    def next_offset(self) -> int | None:
        return self._at if self._low < self._high else None

    @property
    def found(self) -> int:
        """The message; behind the last one if all are older."""
        return max(self._found, self._low)

    def message(self, offset: int, stored_at_ms: int) -> None:
        """The first message at or behind the offset that was asked for."""
        if stored_at_ms < self._time_ms:
            self._low = min(offset + 1, self._high)
            self._has_older = True
        else:
            self._high = self._aim
            self._found = min(offset, self._found)
            self._has_later = True
        self._choose()

    def nothing(self, next_offset: int, min_offset: int, max_offset: int) -> None:
        """No message came: none lies before `next_offset`, and the queue's ends are these."""
        if min_offset > self._at:  # messages expired meanwhile
            self._low = min(min_offset, self._high)
            self._found = max(min_offset, self._found)
        elif max_offset <= self._at:  # the queue was made anew, and is shorter
            self._high = self._found = max_offset
            self._low = min(self._low, max_offset)
        else:
            self._walk(max(next_offset, self._at + 1))
            return
        self._choose()

    def _walk(self, onward: int) -> None:
        """Over a gap: the first message behind it stands for the place that was asked for."""
        self._gaps += 1
        if onward >= self._high:
            self._high = self._aim
            self._has_later = True
        elif self._gaps > GAPS_MAX:  # whole files that are about to be deleted
            self._low = onward
            self._has_older = True
        else:
            self._at = onward
            return
        self._choose()

    def _choose(self) -> None:
        low, high = self._low, self._high
        if self._has_older and self._has_later:
            self._aim = (low + high) // 2
        elif self._has_later:
            self._aim = high - self._stride
        elif self._has_older:
            self._aim = low + self._stride - 1
        self._stride *= 2
        self._aim = self._at = max(low, min(self._aim, high - 1))
