"""`emberq message` on a running cluster."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import emberq
from emberq.testing.embedded import EmbeddedCluster, embedded_cluster
from tests.support.waiting import DEADLINE_S

pytestmark = pytest.mark.integration

FIRST = "CONSUME_FROM_FIRST_OFFSET"


def run(name_server: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "emberq", "message", *arguments, "-n", name_server]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


class Shop:
    """A cluster with one message that was sent in a transaction and consumed."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.name_server = cluster.name_server
        with emberq.Producer("shop", name_server=self.name_server, trace=True) as producer:
            with producer.transaction() as transaction:
                sent = transaction.send("orders", b"paid", keys="order-1", tags="new")
            self.message_id = sent.message_id
        with emberq.PullConsumer(
            "billing", name_server=self.name_server, consume_from_where=FIRST, trace=True
        ) as consumer:
            consumer.subscribe("orders")
            for message in consumer:
                self.offset_message_id = message.offset_message_id
                break

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return run(self.name_server, *arguments)

    def trace(self, name: str, event_count: int = 4) -> Any:
        """Asked until all records are there: clients send them in their time."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            done = self.run("trace", name, "--json")
            if done.returncode == 0 and len(json.loads(done.stdout)[0]["events"]) == event_count:
                return json.loads(done.stdout)
            assert time.monotonic() < deadline, done


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with embedded_cluster(traceTopicEnable="true", recallMessageEnable="true") as cluster:
        yield Shop(cluster)


@pytest.mark.parametrize("name", ["message_id", "offset_message_id", "key"])
def test_the_way_of_a_message_is_shown(shop: Shop, name: str) -> None:
    [trace] = shop.trace("order-1" if name == "key" else getattr(shop, name))

    assert (trace["messageId"], trace["topic"], trace["keys"]) == (
        shop.message_id,
        "orders",
        ["order-1"],
    )
    sent, ended, began, done = trace["events"]
    assert (sent["type"], sent["messageType"], sent["group"]) == ("published", "half", "shop")
    assert (ended["type"], ended["state"]) == ("transactionEnded", "COMMIT_MESSAGE")
    assert (began["type"], began["group"]) == ("consumeBegan", "billing")
    assert (done["type"], done["result"]) == ("consumeEnded", "success")
    assert all(event["clientHost"].startswith("127.0.0.1:") for event in trace["events"])


def test_a_recall_is_part_of_the_way(shop: Shop) -> None:
    with emberq.Producer("planner", name_server=shop.name_server, trace=True) as producer:
        sent = producer.send("orders", b"late", keys="order-2", delay=timedelta(hours=1))
        producer.recall(sent.recall_handle or "")

    [trace] = shop.trace("order-2", event_count=2)

    published, recalled = trace["events"]
    assert (published["messageType"], recalled["type"]) == ("delayed", "recalled")
    assert (recalled["topic"], recalled["group"], recalled["isSuccess"]) == (
        "orders",
        "planner",
        True,
    )


def test_people_see_a_table(shop: Shop) -> None:
    shop.trace(shop.message_id)

    lines = shop.run("trace", shop.message_id).stdout.splitlines()

    assert lines[1] == shop.message_id
    events = [line[25:44].strip() for line in lines[5:]]
    assert events == ["sent", "transaction ended", "consume began", "consume ended"]


def test_a_trace_that_is_not_there_is_one_line(shop: Shop) -> None:
    done = shop.run("trace", "nobody-knows-it")

    assert done.returncode == 1
    assert done.stderr.startswith("emberq: no trace of nobody-knows-it")
    assert len(done.stderr.strip().splitlines()) == 1


def test_messages_are_found_by_id_and_by_key(shop: Shop) -> None:
    viewed = json.loads(shop.run("view", shop.offset_message_id, "--json").stdout)
    [queried] = json.loads(shop.run("query", "orders", "order-1", "--json").stdout)

    assert viewed == queried
    assert (viewed["body"], viewed["topic"], viewed["transaction"]) == ("paid", "orders", "commit")
    assert "broker's id" in shop.run("view", shop.offset_message_id).stdout
    assert "no message of orders" in shop.run("query", "orders", "none").stdout


def test_a_transaction_that_was_given_up_can_be_asked_about_again() -> None:
    answers: list[bool | None] = [None]

    def check(_: emberq.ReceivedMessage) -> bool | None:
        return answers[-1]

    with (
        embedded_cluster(
            transactionTimeOut="100", transactionCheckInterval="100", transactionCheckMax="1"
        ) as cluster,
        emberq.Producer("shop", name_server=cluster.name_server, check=check) as producer,
    ):
        producer.send_in_transaction("orders", b"paid", keys="order-1", execute=lambda _: None)
        parked = run_until(cluster, "query", "TRANS_CHECK_MAX_TIME_TOPIC", "order-1", "--json")
        answers.append(True)

        done = run(cluster.name_server, "resume", parked[0]["offsetId"])

        assert done.stdout.startswith("producers will be asked")
        [order] = run_until(cluster, "query", "orders", "order-1", "--json")
        assert order["transaction"] == "commit"


def run_until(cluster: EmbeddedCluster, *arguments: str) -> Any:
    """Asked until there is something."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        done = run(cluster.name_server, *arguments)
        if done.returncode == 0 and (found := json.loads(done.stdout)):
            return found
        assert time.monotonic() < deadline, done
