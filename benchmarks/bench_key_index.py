"""The key index: adding keys in batches, hash included, and looking one up."""

import itertools
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyperf  # type: ignore[import-untyped] # it has no annotations

from emberq.kernel.key_hashes import index_hashes
from emberq.record.string_hash import index_hash
from emberq.store.disk import RealDisk
from emberq.store.dispatch import Dispatched
from emberq.store.index_layout import ENTRY_SIZE
from emberq.store.key_index import KeyIndex

KEYS_PER_BATCH = 64
BATCHES_PER_LOOP = 200
WARM_UP_KEYS = 64 * 400  # by then nearly every page of the slots is in memory, as in a busy store
SLOTS, ENTRIES_MAX = 5_000_000, 20_000_000
RECORD_SIZE_BYTES = 256
TOPIC = "bench-topic"
FIRST_STORED_AT_MS = 1_760_000_000_000
ALL_TIME = (0, 1 << 62)


def unique_key(number: int) -> str:
    return f"7F0000010B2C18B4AAC2{number:012X}"


def batch_of_records(numbers: Iterator[int], keys_per_record: int) -> list[Dispatched]:
    """Records with a unique key; with a second key of their own; with a tag as the third."""
    count = KEYS_PER_BATCH // keys_per_record
    return [_record(number, keys_per_record) for number in itertools.islice(numbers, count)]


def _record(number: int, keys_per_record: int) -> Dispatched:
    return Dispatched(
        queue=None,
        queue_offset=number,
        log_offset=number * RECORD_SIZE_BYTES,
        size=RECORD_SIZE_BYTES,
        tag_code=0,
        stored_at_ms=FIRST_STORED_AT_MS + number // 100,
        topic=TOPIC,
        unique_key=unique_key(number),
        keys=f"order-{number:07d}" if keys_per_record > 1 else None,
        is_indexed=True,
        tags="TagA" if keys_per_record > 2 else None,
    )


@contextmanager
def busy_index(numbers: Iterator[int], keys_per_record: int = 1) -> Iterator[KeyIndex]:
    with tempfile.TemporaryDirectory() as folder:
        index = KeyIndex(
            RealDisk(),
            Path(folder),
            slots=SLOTS,
            entries_max=ENTRIES_MAX,
            new_name=lambda: "20260101000000000",
        )
        index.load(is_after_crash=False, safe_log_offset=0)
        for _ in range(WARM_UP_KEYS // KEYS_PER_BATCH):
            index.add(batch_of_records(numbers, keys_per_record))
        index.sync()
        yield index
        index.close()


def add(loops: int, keys_per_record: int) -> float:
    """Seconds in which `loops` × BATCHES_PER_LOOP batches are added; writing is not timed."""
    numbers = itertools.count()
    seconds = 0.0
    with busy_index(numbers, keys_per_record) as index:
        for _ in range(loops):
            batches = [batch_of_records(numbers, keys_per_record) for _ in range(BATCHES_PER_LOOP)]
            started = time.perf_counter()
            for batch in batches:
                index.add(batch)
            seconds += time.perf_counter() - started
            keys_added = keys_per_record * sum(map(len, batches))
            assert index.write() == keys_added * ENTRY_SIZE
    return seconds


def find(loops: int) -> float:
    """Seconds for `loops` look-ups of unique keys whose entries are on disk."""
    with busy_index(itertools.count()) as index:
        wanted = [number * 7919 % WARM_UP_KEYS for number in range(loops)]
        keys = [unique_key(number) for number in wanted]
        started = time.perf_counter()
        answers = [index.find(TOPIC, key, 32, *ALL_TIME) for key in keys]
        seconds = time.perf_counter() - started
        for number, answer in zip(wanted, answers, strict=True):
            assert number * RECORD_SIZE_BYTES in answer
    return seconds


def main() -> None:
    runner = pyperf.Runner()
    keys = [unique_key(number) for number in range(KEYS_PER_BATCH)]
    topics = [TOPIC] * KEYS_PER_BATCH
    assert index_hashes(topics, keys) == [index_hash(f"{TOPIC}#{key}") for key in keys]
    runner.bench_func(
        f"key_index.hash {KEYS_PER_BATCH} at once, per key",
        index_hashes,
        topics,
        keys,
        inner_loops=KEYS_PER_BATCH,
    )
    for keys_per_record in (1, 2, 3):
        runner.bench_time_func(
            f"key_index.add {KEYS_PER_BATCH} at once, {keys_per_record} per record, per key",
            add,
            keys_per_record,
            inner_loops=BATCHES_PER_LOOP * (KEYS_PER_BATCH // keys_per_record) * keys_per_record,
        )
    runner.bench_time_func("key_index.find", find)


if __name__ == "__main__":
    main()
