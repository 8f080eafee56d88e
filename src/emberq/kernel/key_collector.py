"""What the properties of records mean for queue and index, for many records at once."""

from emberq.kernel.key_hashes import TAG_HASHES_CACHED_MAX, hash_into, tag_index_hash
from emberq.kernel.stored_properties import find_raw_keys, find_raw_tags, find_raw_unique_key
from emberq.record.string_hash import tag_code

# Hashes, log offset of the record of each, and its store time.
Collected = tuple[list[int], list[int], list[int]]


class KeyCollector:
    """Collects keys record by record, in the order of the index, and hashes them together."""

    def __init__(self) -> None:
        self._hashes: list[int] = []
        self._owners: list[int] = []
        self._times_ms: list[int] = []
        self._topics: list[str] = []
        self._keys: list[bytes] = []
        self._places: list[int] = []  # where the hash of each key belongs
        self._tags: dict[tuple[str, bytes], tuple[int, int]] = {}  # code and index hash

    def note(
        self,
        topic: str,
        view: bytes | memoryview,
        start: int,
        end: int,
        log_offset: int,
        stored_at_ms: int,
    ) -> int:
        """Take the keys of properties that lie somewhere; returns the code of their tags."""
        properties = bytes(view[start:end])
        first = len(self._hashes)
        if key := find_raw_unique_key(properties):
            self._add(topic, key)
        if b"KEYS\x01" in properties and (text := find_raw_keys(properties)):
            for key in text.split(b" "):
                if key:
                    self._add(topic, key)
        code = 0
        if tags := find_raw_tags(properties):
            code, tag_hash = self._facts_of(topic, tags)
            self._hashes.append(tag_hash)
        if count := len(self._hashes) - first:
            self._owners += [log_offset] * count
            self._times_ms += [stored_at_ms] * count
        return code

    def take(self) -> Collected:
        """What was collected since the last time."""
        keys = [key.decode("utf-8", "replace") for key in self._keys]
        hash_into(self._hashes, self._places, self._topics, keys)
        collected = (self._hashes, self._owners, self._times_ms)
        self._hashes, self._owners, self._times_ms = [], [], []
        self._topics, self._keys, self._places = [], [], []
        return collected

    def _add(self, topic: str, key: bytes) -> None:
        self._places.append(len(self._hashes))
        self._topics.append(topic)
        self._keys.append(key)
        self._hashes.append(0)

    def _facts_of(self, topic: str, tags: bytes) -> tuple[int, int]:
        facts = self._tags.get((topic, tags))
        if facts is None:
            if len(self._tags) >= TAG_HASHES_CACHED_MAX:
                self._tags.clear()
            tag = tags.decode("utf-8", "replace")
            facts = self._tags[topic, tags] = tag_code(tag), tag_index_hash(topic, tag)
        return facts
