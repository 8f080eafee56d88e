"""Figures of a client for whoever measures: a Protocol of two methods, and all their names."""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from emberq.errors import ConsumeControl, DeadLetter, SuspendQueue

log = logging.getLogger(__name__)


class Metrics(Protocol):
    """Give one to `Client(metrics=…)`. It is called on the client's loop: it must not block.

    A name has the same labels always; docs/guides/tracing-and-metrics.md lists them.
    """

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        """Something happened `amount` times."""

    def time(self, name: str, seconds: float, labels: Mapping[str, str]) -> None:
        """Something took so long."""


class Measures:
    """What happened, in the words of the client. A Metrics that raises disturbs nobody."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._is_failing = False

    def sent(
        self, group: str, topic: str, count: int, error: BaseException | None, took_s: float
    ) -> None:
        """A send with all its attempts has ended."""
        labels = {"group": group, "topic": topic, "outcome": "failed" if error else "ok"}
        self._count("sent_messages", count, labels)
        self._time("send_seconds", took_s, labels)

    def send_again(self, group: str, topic: str, broker: str) -> None:
        """An attempt failed, and another one follows."""
        self._count("send_retries", 1, {"group": group, "topic": topic, "broker": broker})

    def pulled(self, group: str, topic: str, outcome: str, count: int, took_s: float) -> None:
        """`outcome`: found, empty, moved, failed. Brokers hold a pull while there is nothing."""
        labels = {"group": group, "topic": topic, "outcome": outcome}
        self._count("pulls", 1, labels)
        self._time("pull_seconds", took_s, labels)
        if count:
            self._count("pulled_messages", count, {"group": group, "topic": topic})

    def handled(
        self, group: str, topic: str, count: int, error: Exception | None, took_s: float
    ) -> None:
        labels = {"group": group, "topic": topic, "outcome": _handled_outcome(error)}
        self._count("handled_messages", count, labels)
        self._time("handle_seconds", took_s, labels)

    def given_back(self, group: str, topic: str) -> None:
        """A message that failed is at the broker again, to be delivered later or kept as dead."""
        self._count("given_back_messages", 1, {"group": group, "topic": topic})

    def reconnected(self, peer: str) -> None:
        self._count("reconnects", 1, {"peer": peer})

    def rebalanced(self, group: str) -> None:
        """The share of this member has changed."""
        self._count("rebalances", 1, {"group": group})

    def _count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        self._tell(lambda: self._metrics.count(name, amount, labels))

    def _time(self, name: str, seconds: float, labels: Mapping[str, str]) -> None:
        self._tell(lambda: self._metrics.time(name, seconds, labels))

    def _tell(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception:
            if not self._is_failing:  # once: it would fill the log
                log.exception("metrics_failed")
            self._is_failing = True


def _handled_outcome(error: Exception | None) -> str:
    if error is None:
        return "ok"
    if isinstance(error, DeadLetter):
        return "dead_letter"
    if isinstance(error, SuspendQueue):
        return "suspended"
    return "retry" if isinstance(error, ConsumeControl) else "failed"
