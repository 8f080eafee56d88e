"""Entries of consume queues as columns of numpy, many at a time."""

import numpy as np
import numpy.typing as npt

from emberq.kernel.queue_entries import FILLER_RECORD_SIZE

_FIELDS = np.dtype([("at", ">i8"), ("size", ">i4"), ("tag", ">i8")])

Entries = npt.NDArray[np.void]
Bools = npt.NDArray[np.bool_]


def entries_in(content: bytes) -> Entries:
    return np.frombuffer(content, _FIELDS)


def are_written(entries: Entries) -> Bools:
    is_filler = entries["size"] == FILLER_RECORD_SIZE
    is_written: Bools = (entries["size"] > 0) & (entries["at"] >= 0) & ~is_filler
    return is_written


def are_messages(entries: Entries) -> Bools:
    """Whether each leads to its own message; of the last one only whoever has the next can say.

    A hole in a queue leads to the message behind it, which must not come twice: the same rule as
    `kernel.choose_entries`.
    """
    is_own = np.ones(len(entries), np.bool_)
    is_own[:-1] = entries["at"][:-1] != entries["at"][1:]
    return is_own
