"""Store directories written byte by byte from the format pages, without the store's own code."""

import struct
from collections import defaultdict
from pathlib import Path

from emberq.record.encode import encode_blank, encode_record
from emberq.record.host import pack_host
from emberq.record.properties import encode_properties
from emberq.record.string_hash import index_hash, tag_code

BORN_AT_MS = 1_700_000_000_000
STORE_HOST = pack_host("10.0.0.2", 10911)
BORN_HOST = pack_host("10.0.0.1", 50000)
INDEX_NAME = "20231114221320000"


class Placed:
    """Where a message went."""

    def __init__(self, topic: str, queue_id: int, queue_offset: int, log_offset: int, size: int):
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.log_offset = log_offset
        self.size = size


class StoreBuilder:
    """Collects messages, then writes a store that was stopped cleanly."""

    def __init__(
        self,
        root: Path,
        *,
        segment_size: int = 64 * 1024,
        entries_per_file: int = 100,
        slots: int = 50,
        index_entries_max: int = 1_000,
        first_offset: int = 0,
    ) -> None:
        self.root = root
        self._segment_size = segment_size
        self._entries_per_file = entries_per_file
        self._slots = slots
        self._index_entries_max = index_entries_max
        self._first_offset = first_offset
        self._log = bytearray()
        self._queues: defaultdict[tuple[str, int], list[bytes]] = defaultdict(list)
        self._index: list[tuple[int, int, int]] = []
        self._last_at_ms = BORN_AT_MS
        self.placed: list[Placed] = []

    @property
    def end(self) -> int:
        return self._first_offset + len(self._log)

    def add(
        self,
        topic: str = "orders",
        queue_id: int = 0,
        body: bytes = b"hello",
        *,
        system_flag: int = 0,
        is_queued: bool = True,
        is_indexed: bool = True,
        **properties: str,
    ) -> Placed:
        """Add a message stored one millisecond after the one before it."""
        queue = self._queues[topic, queue_id]
        self._last_at_ms += 1
        text = encode_properties(properties)
        queue_offset = len(queue) if is_queued else 0

        def encoded() -> bytes:
            return encode_record(
                topic,
                body,
                text,
                queue_id=queue_id,
                queue_offset=queue_offset,
                log_offset=self.end,
                system_flag=system_flag,
                born_at_ms=BORN_AT_MS,
                born_host=BORN_HOST,
                stored_at_ms=self._last_at_ms,
                store_host=STORE_HOST,
            )

        record = encoded()
        left = self._segment_size - len(self._log) % self._segment_size
        if len(record) + 8 > left:
            self._log += encode_blank(left).ljust(left, b"\0")
            record = encoded()
        placed = Placed(topic, queue_id, queue_offset, self.end, len(record))
        if is_queued:
            code = tag_code(properties.get("TAGS"))
            queue.append(struct.pack(">qiq", placed.log_offset, placed.size, code))
        if is_indexed:
            keys = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
            for key in filter(None, keys):
                self._index.append((index_hash(f"{topic}#{key}"), self.end, self._last_at_ms))
        self._log += record
        self.placed.append(placed)
        return placed

    def write(self, *, is_clean: bool = True) -> Path:
        for start in range(0, max(len(self._log), 1), self._segment_size):
            segment = bytes(self._log[start : start + self._segment_size])
            self._file(
                f"commitlog/{self._first_offset + start:020d}",
                segment.ljust(self._segment_size, b"\0"),
            )
        size = self._entries_per_file * 20
        for (topic, queue_id), entries in self._queues.items():
            content = b"".join(entries)
            for start in range(0, len(content), size):
                name = f"consumequeue/{topic}/{queue_id}/{start:020d}"
                self._file(name, content[start : start + size].ljust(size, b"\0"))
        if self._index:
            self._file(f"index/{INDEX_NAME}", self._index_file())
        self._file("checkpoint", struct.pack(">qqq", *[self._last_at_ms] * 3).ljust(4096, b"\0"))
        self._file("lock", b"lock")
        if not is_clean:
            self._file("abort", b"4711")
        return self.root

    def _index_file(self) -> bytes:
        slots = [0] * self._slots
        entries = [bytes(20)]
        begin_ms = self._index[0][2]
        for number, (key_hash, log_offset, stored_at_ms) in enumerate(self._index, start=1):
            slot = key_hash % self._slots
            seconds = (stored_at_ms - begin_ms) // 1000
            entries.append(struct.pack(">iqii", key_hash, log_offset, seconds, slots[slot]))
            slots[slot] = number
        header = struct.pack(
            ">qqqqii",
            *(begin_ms, self._index[-1][2], self._index[0][1], self._index[-1][1]),
            *(len(slots) - slots.count(0), len(entries)),
        )
        content = b"".join((header, struct.pack(f">{self._slots}i", *slots), *entries))
        return content.ljust(40 + 4 * self._slots + 20 * self._index_entries_max, b"\0")

    def _file(self, name: str, content: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def overwrite(path: Path, position: int, content: bytes) -> None:
    """Damage a file in place."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)
