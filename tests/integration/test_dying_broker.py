"""A stream's driver and a broker that is killed under it."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from emberq import Message, Producer
from emberq.model.queue import MessageQueue
from emberq.spark.broker_place import BrokerPlace
from emberq.spark.options import parse_stream
from emberq.spark.stream_reader import Driver
from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import run_name_server

pytestmark = pytest.mark.integration

A, B = (MessageQueue(name, 0, "orders") for name in ("broker-a", "broker-b"))


def test_a_lenient_stream_goes_on_with_the_other_broker_at_once(tmp_path: Path) -> None:
    with ExitStack() as life:
        names = life.enter_context(run_name_server(tmp_path / "names"))
        address = f"{names.host}:{names.port}"
        brokers = {
            name: life.enter_context(
                run_broker(
                    tmp_path / name,
                    name_servers=address,
                    config={"brokerIP1": "127.0.0.1", "brokerName": name},
                )
            )
            for name in ("broker-a", "broker-b")
        }
        producer = life.enter_context(Producer("writers", name_server=address))
        producer.create_topic("orders", queues=1)
        for queue in (A, B):
            producer.send(Message("orders", b"x"), queue=queue)
        options = parse_stream(
            {
                "subscribe": "orders",
                "nameServer": address,
                "startingOffsets": "earliest",
                "failOnDataLoss": "false",
                "consumerGroup": "lake",
                "retries": "0",
            }
        )
        driver = Driver(options, BrokerPlace(options), BrokerPlace(options, 60.0))
        first = driver.next_end(driver.start(), is_all=False)
        brokers["broker-b"].kill()
        producer.send(Message("orders", b"x"), queue=A)

        end = driver.next_end(first, is_all=False)
        driver.commit(end)
        heads = BrokerPlace(options).heads([A], "lake")

    assert (first, end) == ({A: 1, B: 1}, {A: 2, B: 1})
    assert heads[A].committed == 2
