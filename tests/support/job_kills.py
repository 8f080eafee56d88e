"""A job on Spark that runs on while driver, workers and broker are killed again and again.

Messages are sent all the while. A job that is gone is started again with the same files. What must
have become of the messages at the end is for each job to say: tests/support/table_kills.py and
tests/support/transform_kills.py.
"""

import abc
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import yaml

from emberq import Message, Producer
from emberq.errors import EmberqError
from emberq.testing.local_broker import LocalBroker, run_broker
from emberq.testing.local_nameserver import run_name_server
from tests.interop.harness.ports import broker_port
from tests.support.process_tree import command_line, descendants, kill_one, kill_tree

TOPIC = "Killed"
QUEUES = 3
MESSAGES_PER_ROUND = 200
MESSAGES_PER_BATCH = MESSAGES_PER_ROUND // 2
STEP_MAX_S = 400.0  # Spark starts in it, on a machine that others use too
PAUSE_S = 0.002
RANDOM_DELAY_MAX_S = 3.0
# On a busy machine workers take their time to start.
SPARK_CONF = {"spark.driver.memory": "1g", "spark.python.authenticate.socketTimeout": "120s"}
# Drivers that live for a minute: code is compiled once, and quickly.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
VICTIMS = ("driver", "worker", "broker")
ANY_MOMENT = "random"


class JobKills(abc.ABC):
    """One job, one broker, and all the kills they survive."""

    # What a batch comes by; for each, something of `_count` grows. `random` is any moment.
    points: ClassVar[Mapping[str, str]]

    def __init__(self, home: Path, random: Random) -> None:
        self._home = home
        self._random = random
        self._folder = home / "table"
        self._stack, self._broker_life = ExitStack(), ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self.sent: list[str] = []
        self.kills: Counter[str] = Counter()
        self.starts = 0
        self.stored = 0

    def __enter__(self) -> "JobKills":
        server = self._stack.enter_context(run_name_server(self._home / "namesrv"))
        self._name_server = f"{server.host}:{server.port}"
        self._broker = self._start_broker(broker_port())
        self._producer = self._stack.enter_context(
            Producer("makers", name_server=self._name_server)
        )
        self._producer.create_topic(TOPIC, queues=QUEUES)
        self._prepare()
        self._log = self._stack.enter_context((self._home / "job.log").open("ab"))
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_job()
        self._broker_life.close()
        self._stack.close()

    def run(self, victim: str, point: str) -> None:
        """Messages, and one kill when the job comes to a point."""
        self._keep_running()
        before = self._count(point)
        self.send(MESSAGES_PER_ROUND)
        if point == ANY_MOMENT:
            time.sleep(self._random.random() * RANDOM_DELAY_MAX_S)
        else:
            self._until(lambda: self._is_past(point, before), f"the job does not come to {point}")
        self._strike(victim)
        self.kills[f"{victim} {point}"] += 1

    def send(self, count: int) -> None:
        """Messages that are in the broker's log for sure."""
        for _ in range(count):
            body = str(len(self.sent))
            self._until(lambda text=body: self._is_sent(text), "the broker takes no message")  # type: ignore[misc] # a str
            self.sent.append(body)

    def settle(self) -> None:
        """Run undisturbed until everything is there."""
        self.stored = sum(map(self._producer.max_offset, self._producer.queues_of(TOPIC)))
        self._before_the_end()
        self._until(self._is_whole, "the job does not come to the end")

    @abc.abstractmethod
    def check(self) -> str:
        """What became of the messages, in words; fails where that is not what was promised."""

    # What each job says

    @abc.abstractmethod
    def _options(self) -> dict[str, Any]:
        """Of the job, beside those that all have."""

    @abc.abstractmethod
    def _is_there(self) -> bool:
        """Whether all that is stored has come through."""

    def _prepare(self) -> None:  # noqa: B027 - most need nothing
        """Before the first start."""

    def _before_the_end(self) -> None:  # noqa: B027 - most need nothing
        """When the last message is stored."""

    def _count(self, point: str) -> int:
        """A number that grows when a batch comes to a point."""
        pattern = self.points[point]
        return sum(1 for _ in self._folder.glob(pattern)) if pattern else 0

    # The job

    def _keep_running(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self.starts += 1
        self._process = subprocess.Popen(
            [sys.executable, "-m", "emberq", "spark", "run", str(self._job_file())],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd=self._home,
            env={
                **os.environ,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "JAVA_TOOL_OPTIONS": JVM_OPTIONS,
            },
        )

    def _job_file(self) -> Path:
        file = self._home / "job.yaml"
        options = {
            "topics": TOPIC,
            "nameServer": self._name_server,
            "every": "200ms",
            # So many attempts: a task whose worker is killed is tried again.
            "spark": {"master": "local[2,8]", "conf": SPARK_CONF},
            **self._options(),
        }
        file.write_text(yaml.safe_dump(options))
        return file

    def _stop_job(self) -> None:
        if self._process is not None:
            kill_tree(self._process.pid)
            self._process.wait()

    def _strike(self, victim: str) -> None:
        assert self._process is not None
        if victim == "driver":
            self._stop_job()
        elif victim == "worker":
            self._until(lambda: bool(self._workers()), "the job has no workers")
            kill_one(self._random.choice(self._workers() or [self._process.pid]))
        else:
            port = self._broker.port
            self._broker.kill()
            self._broker_life.close()
            self._broker = self._start_broker(port)

    def _workers(self) -> list[int]:
        """Python processes that run tasks, and the one that plans for the driver."""
        self._keep_running()
        assert self._process is not None
        below = descendants(self._process.pid)
        daemons = [process for process in below if "pyspark.daemon" in command_line(process)]
        return sorted({process for each in daemons for process in descendants(each)})

    def _start_broker(self, port: int) -> LocalBroker:
        keys = {"brokerIP1": "127.0.0.1"}
        return self._broker_life.enter_context(
            run_broker(
                self._home / "broker", name_servers=self._name_server, config=keys, port=port
            )
        )

    # What is sent

    def _is_sent(self, body: str) -> bool:
        """One whose answer was lost may be in the log twice: `stored` is what counts."""
        try:
            self._producer.send(Message(TOPIC, body.encode(), keys=body))
        except EmberqError:
            return False
        return True

    def _is_whole(self) -> bool:
        self._keep_running()
        time.sleep(0.2)
        return self._is_there()

    def _is_past(self, point: str, before: int) -> bool:
        self._keep_running()
        return self._count(point) > before

    def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + STEP_MAX_S
        while not condition():
            if time.monotonic() > deadline:
                log = (self._home / "job.log").read_text(errors="replace")[-3000:]
                raise AssertionError(f"{otherwise}:\n{log}")
            time.sleep(PAUSE_S)
