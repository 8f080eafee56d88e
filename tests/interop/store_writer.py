"""A process that appends messages of every kind to a store, and then ends or waits to be killed.

    python -m tests.interop.store_writer ROOT PORT MARK ROUNDS AGE_MS close|wait

Its clock is AGE_MS behind. It says a line for each message that was acknowledged, then `closed`
or `waiting`.
"""

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from emberq.record.compression import compress
from emberq.record.host import PackedHost, pack_host
from emberq.record.message_id import UniqueKeyGenerator, make_offset_id
from emberq.record.properties import encode_properties
from emberq.record.system_flag import CompressionType, with_compression
from emberq.store.checkpoint import read_checkpoint
from emberq.store.disk import RealDisk
from emberq.store.key_index import KeyIndex
from emberq.store.message_store import MessageStore, NewMessage
from emberq.store.results import PutResult, PutStatus
from emberq.store.tag_codes import SCHEDULE_TOPIC
from tests.interop.store_messages import SeenMessage, digest, properties_digest
from tests.interop.store_sizes import QUEUE_COUNT, TOPIC, store_config

FLUSH_TIMEOUT_S = 30.0
BORN_HOST = pack_host("192.0.2.7", 40_000)
BORN_HOST_IPV6 = pack_host("2001:db8::7", 40_000)


class Writer:
    def __init__(
        self, store: MessageStore, port: int, mark: str, now_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._store_host = pack_host("127.0.0.1", port)
        self._mark = mark
        self._round = 0
        self._queue_id = 0
        self._unique_keys = UniqueKeyGenerator(b"\x7f\0\0\1", os.getpid(), hash(mark), now_ms)

    def write(self, rounds: int) -> None:
        for _ in range(rounds):
            self._queue_id = self._round % QUEUE_COUNT
            self._write_round(f"{self._mark}-{self._round}", self._round)
            self._round += 1
        self._write_delayed()

    def _write_round(self, name: str, number: int) -> None:
        noise = random.Random(name).randbytes(40_000)
        text = f"compress me {name} ".encode() * 400
        self._put(b"without properties", {}, flag=number)
        self._put(b"", self._named(f"{name}-empty"))
        self._put(b"tagged", self._named(f"{name}  first-{name} polygenelubricants ", "TagA"))
        self._put(
            "Grüße, 世界 😀".encode(),
            self._named(f"schlüssel-{name} 鍵-𝄞-{name}", "Käse-🧀") | {"größe": "naïve – 😀"},
            born_host=BORN_HOST_IPV6,
        )
        for kind in (CompressionType.ZLIB, CompressionType.LZ4, CompressionType.ZSTD):
            self._put(
                text,
                self._named(f"{name}-{kind.name}", "Zip"),
                stored=compress(text, kind),
                system_flag=with_compression(0, kind),
            )
        self._put(noise, self._named(f"{name}-noise", "Noise"), reconsume_times=3)
        self._put(b"wide", self._named(f"{name}-wide") | {"wide": "w" * 20_000 + "ä" * 6_100})
        self._put_batch([self._named(f"{name}-batch-{n} {name}", "Batch") for n in range(5)])

    def _named(self, keys: str, tags: str | None = None) -> dict[str, str]:
        tag = {} if tags is None else {"TAGS": tags}
        return {"KEYS": keys, "UNIQ_KEY": self._unique_keys.next(), "WAIT": "true"} | tag

    def _put(
        self,
        body: bytes,
        properties: dict[str, str],
        *,
        stored: bytes | None = None,
        flag: int = 0,
        system_flag: int = 0,
        born_host: PackedHost = BORN_HOST,
        reconsume_times: int = 0,
    ) -> None:
        born_at_ms = self._now_ms()
        result = self._store.put(
            TOPIC,
            self._queue_id,
            body if stored is None else stored,
            # Official lines differ in whether the last value is terminated.
            encode_properties(properties, is_terminated=self._queue_id % 2 == 0),
            flag=flag,
            system_flag=system_flag,
            born_at_ms=born_at_ms,
            born_host=born_host,
            reconsume_times=reconsume_times,
            tags=properties.get("TAGS"),
            keys=properties.get("KEYS"),
            unique_key=properties.get("UNIQ_KEY"),
        )
        self._say(result, body, properties, born_at_ms, flag, reconsume_times)

    def _put_batch(self, batch: list[dict[str, str]]) -> None:
        born_at_ms = self._now_ms()
        messages = [
            NewMessage(
                body=b"b%d" % number,
                properties=encode_properties(properties),
            )
            for number, properties in enumerate(batch)
        ]
        result = self._store.put_batch(
            TOPIC, self._queue_id, messages, born_at_ms=born_at_ms, born_host=BORN_HOST
        )
        for number, properties in enumerate(batch):
            one = PutResult(
                result.status,
                result.log_offsets[number],
                result.queue_offset + number,
                result.stored_at_ms,
            )
            self._say(one, b"b%d" % number, properties, born_at_ms)

    def _write_delayed(self) -> None:
        """For a broker to deliver a second later: level 1 waits in queue 0 of the schedule."""
        properties = self._named(f"{self._mark}-soon", "Soon") | {
            "DELAY": "1",
            "REAL_TOPIC": TOPIC,
            "REAL_QID": "1",
        }
        result = self._store.put(
            SCHEDULE_TOPIC,
            0,
            b"delivered after a second",
            encode_properties(properties),
            born_at_ms=self._now_ms(),
            born_host=BORN_HOST,
            tags=properties["TAGS"],
            keys=properties["KEYS"],
            unique_key=properties["UNIQ_KEY"],
            delay=properties["DELAY"],
        )
        assert result.status is PutStatus.PUT_OK, result

    def _say(
        self,
        result: PutResult,
        body: bytes,
        properties: dict[str, str],
        born_at_ms: int,
        flag: int = 0,
        reconsume_times: int = 0,
    ) -> None:
        assert result.status is PutStatus.PUT_OK, result
        offset_id = make_offset_id(self._store_host, result.log_offset)
        message = SeenMessage(
            queue_id=self._queue_id,
            queue_offset=result.queue_offset,
            log_offset=result.log_offset,
            offset_id=offset_id,
            message_id=properties.get("UNIQ_KEY", offset_id),
            born_at_ms=born_at_ms,
            stored_at_ms=result.stored_at_ms,
            flag=flag,
            reconsume_times=reconsume_times,
            tags=properties.get("TAGS", ""),
            keys=properties.get("KEYS", ""),
            body_digest=digest(body),
            properties_digest=properties_digest(properties),
        )
        say(f"put {message.line}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def wait_for_flusher(store: MessageStore) -> None:
    assert store.index is not None
    deadline = time.monotonic() + FLUSH_TIMEOUT_S
    while store.index.unwritten_bytes:
        assert time.monotonic() < deadline, "the flusher does not write"
        time.sleep(0.01)  # it says nothing when it has written
    while not is_index_vouched_for(store.index, store.config.root):
        assert time.monotonic() < deadline, "the checkpoint does not move"
        time.sleep(0.01)


def is_index_vouched_for(index: KeyIndex, root: Path) -> bool:
    """Official brokers throw away index files that end later than the checkpoint says, and never
    correct the end of a full one, which comes behind the checkpoint."""
    ends = {path: read_end(path) for path in (root / "index").iterdir()}
    checkpoint = read_checkpoint(RealDisk(), root / "checkpoint")
    full = [file for file in index._files if file.is_full]
    return max(ends.values(), default=0) <= checkpoint.index_timestamp_ms and [
        ends[file.path] for file in full
    ] == [file.header.end_timestamp_ms for file in full]


def read_end(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[8:16], "big")


def main(root: str, port: str, mark: str, rounds: str, age_ms: str, ending: str) -> None:
    def now_ms() -> int:
        return time.time_ns() // 1_000_000 - int(age_ms)

    store_host = pack_host("127.0.0.1", int(port))
    store = MessageStore(store_config(Path(root)), store_host=store_host, now_ms=now_ms)
    store.open()
    writer = Writer(store, int(port), mark, now_ms)
    writer.write(int(rounds) // 2)
    if ending == "close":
        writer.write(int(rounds) // 2)
        store.close()
        say("closed")
    else:
        # One half of the messages is in the files of queues and index, the other in the log only.
        wait_for_flusher(store)
        writer.write(int(rounds) // 2)
        say("waiting")
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
