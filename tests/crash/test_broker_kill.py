"""A broker killed under load: nothing that it acknowledged is lost, and queues keep their order."""

import asyncio
from pathlib import Path

import pytest

from emberq.config_file import read_settings
from emberq.record.host import UNKNOWN_HOST
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.store.config import StoreConfig
from emberq.store.message_store import MessageStore
from emberq.testing.local_broker import SMALL_STORE, LocalBroker, run_broker
from tests.support.send_load import Producer, by_producer, pulled
from tests.support.stores import bodies_of
from tests.support.waiting import DEADLINE_S, until

pytestmark = pytest.mark.crash

ROUNDS = 4
ANSWERS_PER_ROUND = 400
# Levels so short that deliveries are under way when the broker dies.
LEVELS = "1s 2s"
# A busy machine makes the broker no less right.
PATIENT = {"brokerFastFailureEnable": "false", "syncFlushTimeout": "60000"}


async def kill_under_load(broker: LocalBroker, producers: list[Producer]) -> None:
    def answers() -> int:
        return sum(len(producer.acknowledged) for producer in producers)

    goal = answers() + ANSWERS_PER_ROUND
    running = [
        asyncio.create_task(producer.send_until_it_dies(broker.host, broker.port))
        for producer in producers
    ]
    await until(lambda: answers() >= goal)
    await asyncio.to_thread(broker.kill)
    async with asyncio.timeout(20):
        await asyncio.gather(*running)


def opened_store(folder: Path) -> MessageStore:
    config = read_settings(StoreConfig, {**SMALL_STORE, "storePathRootDir": str(folder)})
    store = MessageStore(config, store_host=UNKNOWN_HOST)
    store.open()
    return store


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_acknowledged_messages_survive_every_kill(tmp_path: Path, flush: str) -> None:
    producers = [
        Producer("single-a", "Orders", 0),
        Producer("single-b", "Orders", 0),
        Producer("single-c", "Orders", 1),
        Producer("batch-d", "Orders", 1),
    ]
    config = PATIENT | {"flushDiskType": flush}
    for _ in range(ROUNDS):
        with run_broker(tmp_path, "--log-level", "error", config=config) as broker:
            await kill_under_load(broker, producers)

    store = opened_store(broker.store)
    try:
        queues = [bodies_of(store, "Orders", queue_id) for queue_id in (0, 1)]
    finally:
        store.close()
    stored = {body for bodies in queues for body in bodies}
    for producer in producers:
        assert producer.acknowledged <= stored
    for bodies in queues:
        assert len(bodies) == len(set(bodies)), "nobody sent anything twice"
        for name, numbers in by_producer(bodies).items():
            assert numbers == sorted(numbers), name


async def test_delayed_messages_survive_every_kill(tmp_path: Path) -> None:
    producers = [
        Producer("late-a", "Late", 0, delay_level=1),
        Producer("late-b", "Late", 1, delay_level=2),
    ]
    config = PATIENT | {"messageDelayLevel": LEVELS, "flushDelayOffsetInterval": "100"}
    for _ in range(ROUNDS):
        with run_broker(tmp_path, "--log-level", "error", config=config) as broker:
            await kill_under_load(broker, producers)
    expected = set[bytes]().union(*(producer.acknowledged for producer in producers))

    with run_broker(tmp_path, "--log-level", "error", config=config) as broker:
        reader = await connect(broker.host, broker.port, Endpoint())
        async with asyncio.timeout(DEADLINE_S):
            while not expected <= await delivered(reader):
                pass
        reader.abort()


async def delivered(reader: Connection) -> set[bytes]:
    queues = [await pulled(reader, "Late", queue_id) for queue_id in (0, 1)]
    return {bytes(record.body) for records in queues for record in records}
