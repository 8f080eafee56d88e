"""Failures of the libraries behind tables as one sentence that names the table."""

from collections.abc import Iterator
from contextlib import contextmanager

from emberq.errors import EmberqError, TableError


@contextmanager
def readable_failures(root: str) -> Iterator[None]:
    """For calls of a library only: what they raise has no class in common."""
    try:
        yield
    except EmberqError:
        raise
    except Exception as error:
        said = str(error).partition("\n")[0]  # traces of calls follow
        raise TableError(f"{root}: {said or type(error).__name__}") from error
