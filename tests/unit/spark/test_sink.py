"""What the sink's writers know of themselves, without a JVM."""

from collections.abc import Iterator
from typing import Any

import pytest

from emberq.errors import ConfigError
from emberq.spark import sink
from emberq.spark.row_sending import Task
from emberq.spark.sink import StreamWriter
from emberq.spark.sink_options import parse_sink

PROPERTIES = {"sql.streaming.queryId": "0f-1a", "streaming.sql.batchId": "7"}


class Context:
    """Of a task, with what Spark has told it."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.getLocalProperty = properties.get

    def partitionId(self) -> int:
        return 3


@pytest.fixture
def task_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a stream's writer takes its task for."""
    tasks: list[Task] = []

    def written(batches: Iterator[Any], task: Task, options: Any) -> Any:
        tasks.append(task)

    def found(delivery: str, properties: dict[str, str]) -> Task:
        context = Context(properties)
        monkeypatch.setattr("emberq.spark.sink.TaskContext.get", lambda: context)
        options = parse_sink({"nameServer": "here:9876", "delivery": delivery, "topic": "orders"})
        StreamWriter(options).write(iter([]))
        return tasks[-1]

    monkeypatch.setattr(sink, "_written", written)
    return found


@pytest.mark.parametrize("delivery", ["at-least-once", "idempotent", "transactional"])
def test_a_stream_is_known_by_its_query_and_batch(task_of: Any, delivery: str) -> None:
    assert task_of(delivery, PROPERTIES) == Task("0f1a", 7, 3)


@pytest.mark.parametrize("missing", PROPERTIES)
@pytest.mark.parametrize("delivery", ["idempotent", "transactional"])
def test_a_stream_that_does_not_know_its_batch_is_refused_where_that_would_lose_rows(
    task_of: Any, delivery: str, missing: str
) -> None:
    known = {name: value for name, value in PROPERTIES.items() if name != missing}

    with pytest.raises(ConfigError, match=missing):
        task_of(delivery, known)
    assert task_of("at-least-once", known).partition == 3


def test_empty_names_of_brokers_are_none() -> None:
    given = {"nameServer": "here:9876", "delivery": "idempotent", "brokers": "a, ,b,"}

    assert parse_sink(given).brokers == ("a", "b")
