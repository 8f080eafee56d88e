"""Failures of Spark as one line that says what is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

from emberq.errors import PipelineError

_OURS = "emberq.errors."


@contextmanager
def readable_failures() -> Iterator[None]:
    """Turn what Spark raises into a PipelineError; Spark's own traces stay as its cause."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra

    try:
        yield
    except PySparkException as error:
        raise PipelineError(cause_of(error)) from error


def cause_of(error: BaseException) -> str:
    """The line that a person would look for: what EmberQ said, else what Spark said first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        kind, colon, rest = line.partition(": ")
        if colon and kind.startswith(_OURS):
            return rest
    return lines[0] if lines else type(error).__name__
