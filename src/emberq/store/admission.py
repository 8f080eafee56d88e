"""Whether the store takes messages now, and what it answers when it does not."""

from emberq.store.results import PutResult, PutStatus


class Admission:
    """Asked before every put, so both reasons are plain attributes; any thread may set them."""

    __slots__ = ("is_index_busy", "refusal")

    def __init__(self) -> None:
        self.refusal = "the store is not open"  # why puts are refused; empty when they are not
        self.is_index_busy = False  # the flusher cannot keep up with new keys

    def refused(self) -> PutResult | None:
        """The answer to a put that is not taken."""
        if self.refusal:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self.refusal)
        if self.is_index_busy:
            return PutResult(PutStatus.OS_PAGE_CACHE_BUSY, reason="the index waits for the disk")
        return None
