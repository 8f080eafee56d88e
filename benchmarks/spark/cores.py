"""One core for Spark, the other ones for who serves it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


class Cores:
    """Of this process; those that it starts begin with its own."""

    def __init__(self) -> None:
        self.all = os.sched_getaffinity(0)
        first = min(self.all)
        self.of_spark = {first}
        self.of_servers = self.all - self.of_spark or self.of_spark


@contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
