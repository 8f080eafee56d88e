"""Figures of a client for Prometheus and OpenTelemetry.

python examples/metrics.py localhost:9876

Neither library is needed to run this: what they would do is done by a few lines here.
"""

import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from emberq import Client, Producer


class PrometheusText:
    """Metrics as Prometheus reads them; `prometheus_client` has more kinds of them."""

    def __init__(self) -> None:
        self._values: defaultdict[str, float] = defaultdict(float)

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        self._values[f"emberq_{name}_total{_braces(labels)}"] += amount

    def time(self, name: str, seconds: float, labels: Mapping[str, str]) -> None:
        self._values[f"emberq_{name}_sum{_braces(labels)}"] += seconds
        self._values[f"emberq_{name}_count{_braces(labels)}"] += 1

    def gauge(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        self._values[f"emberq_{name}{_braces(labels)}"] = value

    def text(self) -> str:
        """What /metrics answers."""
        return "".join(f"{name} {value:g}\n" for name, value in sorted(self._values.items()))


def _braces(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


class OpenTelemetryMetrics:
    """`meter` is what `opentelemetry.metrics.get_meter("emberq")` returns."""

    def __init__(self, meter: Any) -> None:
        self._meter = meter
        self._instruments: dict[str, Any] = {}

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        if name not in self._instruments:
            self._instruments[name] = self._meter.create_counter(f"emberq.{name}")
        self._instruments[name].add(amount, labels)

    def time(self, name: str, seconds: float, labels: Mapping[str, str]) -> None:
        if name not in self._instruments:
            self._instruments[name] = self._meter.create_histogram(f"emberq.{name}", unit="s")
        self._instruments[name].record(seconds, labels)

    def gauge(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        if name not in self._instruments:
            self._instruments[name] = self._meter.create_gauge(f"emberq.{name}")
        self._instruments[name].set(value, labels)


def main(name_server: str) -> None:
    metrics = PrometheusText()
    with (
        Client(name_server, metrics=metrics) as client,
        Producer("shop", client=client) as producer,
    ):
        for number in range(3):
            producer.send("measured", b"%d" % number)
    print(metrics.text())
    print("emberq_sent_messages_total" in metrics.text())


if __name__ == "__main__":
    main(sys.argv[1])
