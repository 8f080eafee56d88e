"""The blocking client against a cluster in processes of its own."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from emberq import (
    Client,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
)
from emberq.errors import ClientClosed, MessageRefused
from emberq.testing.local_cluster import LocalCluster, run_cluster

pytestmark = pytest.mark.integration

FIRST = "CONSUME_FROM_FIRST_OFFSET"
DEADLINE_S = 20.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    data: Path = tmp_path_factory.mktemp("cluster")
    with run_cluster(data) as started:
        yield started


def test_messages_are_sent_and_handled(running: LocalCluster) -> None:
    got: list[str] = []
    is_done = threading.Event()
    with Producer("writers", name_server=running.name_server, codec=str) as producer:
        results = producer.send_batch([Message("push", f"batch-{number}") for number in range(3)])
        single = producer.send("push", "single", tags="A")
        futures = [producer.submit("push", f"future-{number}") for number in range(3)]
        producer.send_oneway("push", "oneway")
        assert single.queue in producer.queues("push")
        assert {future.result(10).status for future in futures} == {results[0].status}

    consumer = PushConsumer(
        "push-readers", name_server=running.name_server, consume_from_where=FIRST
    )

    @consumer.subscribe("push", codec=str)
    def handle(message: ReceivedMessage) -> None:
        got.append(message.value)
        if len(got) == 8:
            is_done.set()

    with consumer:
        assert is_done.wait(DEADLINE_S)
        consumer.settled()
        assert consumer.queues
        consumer.pause()
        consumer.resume()
        assert sum(lag.messages for lag in consumer.lag()) >= 0
    assert len(set(got)) == 8


def test_run_returns_when_a_handler_stops_it(running: LocalCluster) -> None:
    consumer = PushConsumer(
        "run-readers", name_server=running.name_server, consume_from_where=FIRST
    )
    attempts = 0

    @consumer.subscribe("run")
    def handle(message: ReceivedMessage) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise RetryLater(delay_level=1)
        consumer.stop()

    with Producer("writers", name_server=running.name_server) as producer:
        producer.send("run", b"x")
    consumer.run()

    assert attempts == 2


def test_messages_are_pulled_one_by_one(running: LocalCluster) -> None:
    with Client(running.name_server) as client:
        with Producer("writers", client=client) as producer:
            for number in range(5):
                producer.send("pull", b"%d" % number, ordering_key="k")
        with PullConsumer("pullers", client=client, consume_from_where=FIRST) as consumer:
            consumer.subscribe("pull")
            got = []
            for message in consumer:
                got.append(message.body)
                if len(got) == 5:
                    break
            queue = message.queue
            consumer.commit()
            assert consumer.committed(queue) == 5
            assert queue in consumer.assignment
            assert queue in consumer.queues("pull")
            consumer.seek(queue, 3)
            assert [each.body for each in consumer.poll(2, timeout=10)] == [b"3", b"4"]
            consumer.pause(queue)
            consumer.resume(queue)
        assert client.health().is_running
    assert got == [b"0", b"1", b"2", b"3", b"4"]
    assert not client.health().is_running


def test_errors_are_those_of_the_asyncio_client(running: LocalCluster) -> None:
    producer = Producer("writers", name_server=running.name_server)
    with producer, pytest.raises(MessageRefused, match="text needs"):
        producer.send("errors", "text")
    with pytest.raises(ClientClosed):
        producer.send("errors", b"x")


FORKING = """
import os, sys, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads; that is the point
from emberq import Producer
from emberq.errors import ForkedClient

with Producer("writers", name_server=sys.argv[1]) as producer:
    producer.send("forked", b"before")
    child = os.fork()
    if not child:
        try:
            producer.send("forked", b"in the child")
        except ForkedClient as error:
            print(error, flush=True)
            with Producer("writers", name_server=sys.argv[1]) as own:
                own.send("forked", b"by its own")
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    producer.send("forked", b"after")
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_is_told_at_once_and_the_parent_goes_on(running: LocalCluster) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, running.name_server],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "Make clients after the fork" in done.stdout


def test_a_url_makes_a_client(running: LocalCluster) -> None:
    with (
        Client.from_url(f"rocketmq://{running.name_server}") as client,
        Producer("writers", client=client) as producer,
    ):
        assert producer.send("url", b"x").queue.topic == "url"
