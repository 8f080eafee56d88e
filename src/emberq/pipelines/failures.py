"""Failures of Spark as one line that says what is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

from emberq.errors import PipelineError

_OURS = "emberq.errors."
_TRACE = "Traceback (most recent call last):"
# What Spark adds behind the failure: the state of a query, the calls of the JVM.
_BEHIND = ("=== Streaming Query ===", "JVM stacktrace:")
_NO_JVM = "[JAVA_GATEWAY_EXITED]"


@contextmanager
def readable_failures() -> Iterator[None]:
    """Turn what Spark raises into a PipelineError; Spark's own traces stay as its cause."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra

    try:
        yield
    except PySparkException as error:
        raise PipelineError(cause_of(error)) from error


def cause_of(error: BaseException) -> str:
    """The line that a person would look for: what EmberQ said, else what Python said behind a trace
    of calls, else what Spark said first."""
    text = str(error)
    for line in map(str.strip, text.splitlines()):
        kind, colon, rest = line.partition(": ")
        if colon and kind.startswith(_OURS):
            return rest
    if text.startswith(_NO_JVM):
        return "Spark's Java ended before Spark was there: what it said stands above"
    for mark in _BEHIND:
        text = text.partition(mark)[0]
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    first = lines[0].strip()
    head = first.removesuffix(_TRACE).strip() if first.endswith(_TRACE) else ""
    return " ".join(filter(None, (head, _said_by_python(lines)))) or first


def _said_by_python(lines: list[str]) -> str:
    """Behind the last trace, as of failures behind failures that one is what was raised."""
    traces = [number for number, line in enumerate(lines) if line.endswith(_TRACE)]
    behind = lines[traces[-1] + 1 :] if traces else []
    return next((line for line in behind if not line[0].isspace()), "")
