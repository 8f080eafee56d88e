"""Figures of streaming queries for whoever measures: those of a client, and levels."""

from collections.abc import Mapping
from typing import Protocol

from emberq.client.metrics import Measures, Metrics
from emberq.model.queue import MessageQueue


class QueryMetrics(Metrics, Protocol):
    """Give one to `emberq.spark.track(metrics=…)`; a client takes it as well.

    It is called by Spark's listener. docs/guides/tracing-and-metrics.md lists the names.
    """

    def gauge(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Something is so much now."""


class QueryMeasures(Measures):
    """What happened, in the words of queries."""

    def __init__(self, metrics: QueryMetrics) -> None:
        super().__init__(metrics)
        self._levels = metrics

    def batch_done(self, group: str, query: str, rows: int, took_s: float) -> None:
        labels = {"group": group, "query": query}
        self._count("query_batches", 1, labels)
        self._count("query_rows", rows, labels)
        self._time("query_batch_seconds", took_s, labels)

    def behind(self, group: str, query: str, lag: Mapping[MessageQueue, int]) -> None:
        for queue, count in lag.items():
            labels = {
                **{"group": group, "query": query, "topic": queue.topic},
                **{"broker": queue.broker_name, "queue": str(queue.queue_id)},
            }
            self._gauge("query_lag", count, labels)

    def _gauge(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        self._tell(lambda: self._levels.gauge(name, value, labels))
