"""A query that writes batch after batch with the Spark sink while somebody is killed in each.

As Spark does, a batch whose driver is gone is done again under the same number until it succeeds.
"""

import json
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, TextIO

from emberq import Producer
from emberq.testing.local_broker import LocalBroker, run_broker
from emberq.testing.local_nameserver import run_name_server
from tests.interop.harness.ports import broker_port
from tests.support.sink_process import AT_THE_POINT, FAILED
from tests.support.topic_content import bodies_of

TOPIC, WRITER = "Sunk", "query"
PARTITIONS, ROWS = 2, 60
ATTEMPTS_MAX = 6
PROCESS_MAX_S = 240.0
VICTIMS = ("driver", "task", "broker")
POINTS = {
    "at-least-once": ("send", "behind"),
    "idempotent": ("once", "behind"),
    "transactional": ("stage", "decide", "decided", "end", "note", "behind"),
}
_OF_TASKS = ("stage", "send", "once")


class SinkKills:
    def __init__(self, home: Path, random: Random, delivery: str, **config: str) -> None:
        self._home = home
        self._random = random
        self.delivery = delivery
        self._config = {"brokerIP1": "127.0.0.1", **config}
        self._stack = ExitStack()
        self._broker_life = ExitStack()
        self.batch = 0
        self.kills: Counter[str] = Counter()

    def __enter__(self) -> "SinkKills":
        server = self._stack.enter_context(run_name_server(self._home / "namesrv"))
        self._name_server = f"{server.host}:{server.port}"
        self._broker = self._start_broker(broker_port())
        with Producer("makers", name_server=self._name_server) as producer:
            producer.create_topic(TOPIC, queues=3)
        return self

    def __exit__(self, *_: object) -> None:
        self._broker_life.close()
        self._stack.close()

    @property
    def options(self) -> dict[str, str]:
        return {"nameServer": self._name_server, "topic": TOPIC, "delivery": self.delivery}

    def _start_broker(self, port: int) -> LocalBroker:
        return self._broker_life.enter_context(
            run_broker(
                self._home / "broker",
                name_servers=self._name_server,
                config=self._config,
                port=port,
            )
        )

    def run(self, victim: str | None = None, point: str | None = None) -> None:
        """One batch, in which somebody is killed at a point; it is done again until it is done."""
        victim = victim or self._random.choice(VICTIMS)
        point = point or self._random.choice(POINTS[self.delivery])
        if victim == "task":
            point = next(each for each in _OF_TASKS if each in POINTS[self.delivery])
        at = self._random.randint(1, _calls(point))
        self.kills[f"{victim} at {point}"] += 1
        is_done = self.attempt(victim, point, at)
        for _ in range(ATTEMPTS_MAX):
            if is_done:
                break
            is_done = self.attempt(None, None, 0)
        assert is_done, f"batch {self.batch} did not end well after {victim} died at {point} {at}"
        self.batch += 1

    def attempt(self, victim: str | None, point: str | None, at: int) -> bool:
        """Whether the batch is done."""
        # A file, as nobody reads a pipe before the kill: what logs much would wait for ever.
        log = self._home / "sink.log"
        with log.open("w") as errors, self._process(point, at, errors, victim == "task") as process:
            try:
                if victim is not None:
                    self._strike(process, victim)
                process.communicate(timeout=PROCESS_MAX_S)
            finally:
                process.kill()
        if victim == "task":
            return False
        is_expected = process.returncode in (0, FAILED, -9)
        assert is_expected, f"{process.returncode} {victim} {point}: {log.read_text()}"
        return process.returncode == 0

    def _strike(self, process: "subprocess.Popen[str]", victim: str) -> None:
        assert process.stdout is not None
        line = process.stdout.readline()
        if line.strip() != AT_THE_POINT:
            return  # it came to its end before the point
        if victim == "broker":
            port = self._broker.port
            self._broker.kill()
            self._broker_life.close()
            self._broker = self._start_broker(port)
        else:
            process.kill()

    def _process(
        self, point: str | None, at: int, errors: TextIO, is_task: bool
    ) -> "subprocess.Popen[str]":
        asked: dict[str, Any] = {
            "options": self.options,
            "writer": WRITER,
            "batch": self.batch,
            "partitions": [self._bodies(partition) for partition in range(PARTITIONS)],
            "point": point,
            "count": at,
            "is_task": is_task,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.sink_process", json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

    def _bodies(self, partition: int) -> list[str]:
        return [f"{self.batch}-{partition}-{row}" for row in range(ROWS)]

    def seen(self) -> Counter[str]:
        own = bodies_of(self._name_server, TOPIC)
        return Counter(body for bodies in own for body in bodies)

    def wanted(self) -> set[str]:
        """What batches that are done have written."""
        return {
            f"{batch}-{partition}-{row}"
            for batch in range(self.batch)
            for partition in range(PARTITIONS)
            for row in range(ROWS)
        }

    def check(self, seen: Counter[str]) -> None:
        wanted = self.wanted()
        assert wanted - seen.keys() == set(), "messages are missing"
        assert seen.keys() - wanted == set(), "messages that nobody committed"
        if self.delivery != "at-least-once":
            twice = sorted(body for body, times in seen.items() if times > 1)
            assert not twice, f"messages came twice: {twice[:10]}"


def _calls(point: str) -> int:
    """How often a batch comes to a point."""
    return {"stage": PARTITIONS * ROWS, "end": PARTITIONS * ROWS, "send": 6, "once": 6}.get(
        point, 1
    )
