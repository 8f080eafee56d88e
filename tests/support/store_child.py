"""A process that puts messages from several tasks until it is killed: python -m ... ROOT SEED KIND.

Tells on standard output what a producer would be told: a line for each acknowledged message.
Another task deletes a topic again and again; in every other process the disk seems to be so full
that the oldest segments go.
"""

import asyncio
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

from emberq.store.config import FlushKind
from emberq.store.disk import RealDisk
from emberq.store.message_store import MessageStore
from emberq.store.results import PutStatus
from tests.support.stores import loop_store, put

TASKS = 4
QUEUES = 3
SEGMENT_SIZE = 64 * 1024
OPENING = "opening"
PACE: dict[str, Any] = {
    "mapped_file_size_commit_log": SEGMENT_SIZE,
    "mapped_file_size_consume_queue": 200 * 20,
    "max_hash_slot_num": 500,
    "max_index_num": 2_000,
    "flush_interval_commit_log": 10,
    "flush_interval_consume_queue": 5,
    "flush_consume_queue_thorough_interval": 20,
    "clean_resource_interval": 10,
    "delete_commit_log_files_interval": 0,
}
DELETED_TOPIC = "Deleted"


class NearlyFullDisk(RealDisk):
    """Full enough that the oldest segments go whatever their age, not to refuse messages."""

    def used_ratio(self, folder: Path) -> float:
        return 0.88


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def produce(store: MessageStore, random: Random, task: int, *, is_sync: bool) -> None:
    loop = asyncio.get_running_loop()
    number = 0
    while True:
        number += 1
        key = f"{os.getpid()}-{task}-{number}"
        body = key.encode() + b"." * random.choice((0, 10, 200, 3_000))
        queue_id = random.randrange(QUEUES)
        result = put(store, body, queue_id=queue_id, keys=key, tags=f"tag{task}")
        status = result.status
        if is_sync and status is PutStatus.PUT_OK:
            settled: asyncio.Future[PutStatus] = loop.create_future()
            store.when_durable(result.end_offset, settled.set_result)
            status = await settled
        assert status is PutStatus.PUT_OK, (status, result.reason)
        tell(f"{result.log_offset} {queue_id} {result.queue_offset} {key} {len(body)}")
        if random.random() < 0.3:
            await asyncio.sleep(0)


async def delete_again_and_again(store: MessageStore, random: Random) -> None:
    while True:
        for _ in range(random.randrange(5)):
            assert put(store, topic=DELETED_TOPIC, queue_id=random.randrange(QUEUES))
            await asyncio.sleep(0)
        await asyncio.to_thread(store.delete_topics, [DELETED_TOPIC])


async def main(root: Path, seed: int, kind: str) -> None:
    random = Random(seed)
    disk = NearlyFullDisk() if seed % 2 else None
    store = loop_store(root, disk, flush_disk_type=kind, **PACE)
    tell(OPENING)
    store.open()
    async with asyncio.TaskGroup() as group:
        group.create_task(delete_again_and_again(store, random))
        for task in range(TASKS):
            is_sync = kind == FlushKind.SYNC_FLUSH
            group.create_task(produce(store, random, task, is_sync=is_sync))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
