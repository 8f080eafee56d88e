"""What a person sees of a failure of Spark."""

import pytest

from emberq.pipelines.failures import cause_of

OF_A_WORKER = """[STREAM_FAILED] the query ended: Traceback (most recent call last):
  File "worker.py", line 1, in main
    take()
PythonException:
  An exception was thrown from the Python worker.
[PYTHON_EXCEPTION] Traceback (most recent call last):
  File "worker.py", line 2, in read
    load()
ModuleNotFoundError: No module named 'orders'

JVM stacktrace:
org.apache.spark.SparkException: of no help
\tat org.apache.spark.Task.run(Task.scala:1)
Caused by: java.lang.Exception: neither"""

OF_A_STREAM = """[STREAM_FAILED] Query [id = 1, runId = 2] ended: Traceback (most recent call last):
  File "worker.py", line 2, in read
    load()
AssertionError

=== Streaming Query ===
Identifier: [id = 1, runId = 2]
Current State: ACTIVE"""

OF_A_BATCH = """An exception was thrown from the Python worker. Please see the stack trace below.:
Traceback (most recent call last):
  File "worker.py", line 2, in read
    load()
ValueError: a bad value
Expected: one of a, b"""


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("[NO_TABLE] there is no table\n\tat org.apache.spark", "[NO_TABLE] there is no table"),
        ("something\n  emberq.errors.DataLost: 3 are gone\nmore: of it", "3 are gone"),
        (
            OF_A_WORKER,
            "[STREAM_FAILED] the query ended: ModuleNotFoundError: No module named 'orders'",
        ),
        (OF_A_STREAM, "[STREAM_FAILED] Query [id = 1, runId = 2] ended: AssertionError"),
        (OF_A_BATCH, "ValueError: a bad value"),
        ("it ended: Traceback (most recent call last):", "it ended:"),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            "Spark's Java ended before Spark was there: what it said stands above",
        ),
        ("", "RuntimeError"),
    ],
)
def test_it_is_the_line_that_says_what_is_wrong(said: str, seen: str) -> None:
    assert cause_of(RuntimeError(said)) == seen
