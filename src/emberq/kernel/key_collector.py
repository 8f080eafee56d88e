"""What the properties of records mean for queue and index, for many records at once."""

from emberq.kernel.key_hashes import hash_into, tag_index_hash
from emberq.kernel.stored_properties import find_raw_keys, find_raw_unique_key, find_tags
from emberq.record.string_hash import tag_code

FACTS_CACHED_MAX = 4096
PROPERTIES_CACHED_MAX_BYTES = 512
_UNIQUE_KEY = b"UNIQ_KEY\x01"
_UNIQUE_KEY_SIZE = len(_UNIQUE_KEY)
_facts: dict[tuple[str, bytes, bytes], tuple[int, int]] = {}

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
        hashes, owners, times_ms = self._hashes, self._owners, self._times_ms
        # Most messages of a producer differ in their unique key only.
        at = properties.find(_UNIQUE_KEY)
        behind = properties.find(b"\x02", at)
        if at < 0 or behind <= at + _UNIQUE_KEY_SIZE:  # none, the last property, or an empty one
            return self._note_unusual(topic, properties, log_offset, stored_at_ms)
        rest = (topic, properties[:at], properties[behind:])
        facts = _facts.get(rest)
        if facts is None:
            if not _is_usual(properties, at):
                return self._note_unusual(topic, properties, log_offset, stored_at_ms)
            facts = _note_facts(rest)
        self._places.append(len(hashes))
        self._topics.append(topic)
        self._keys.append(properties[at + _UNIQUE_KEY_SIZE : behind])
        code, tag_hash = facts
        if tag_hash < 0:
            hashes.append(0)
            owners.append(log_offset)
            times_ms.append(stored_at_ms)
        else:
            hashes += (0, tag_hash)
            owners += (log_offset, log_offset)
            times_ms += (stored_at_ms, stored_at_ms)
        return code

    def _note_unusual(
        self, topic: str, properties: bytes, log_offset: int, stored_at_ms: int
    ) -> int:
        first = len(self._hashes)
        if key := find_raw_unique_key(properties):
            self._add(topic, key)
        if text := find_raw_keys(properties):
            for key in text.split(b" "):
                if key:
                    self._add(topic, key)
        code = 0
        if tags := find_tags(properties):
            code = tag_code(tags)
            self._hashes.append(tag_index_hash(topic, tags))
        count = len(self._hashes) - first
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


def likeness_of(topic: str, stored: bytes, start: int) -> tuple[bytes, bytes, int, int] | None:
    """What messages are that differ from this one in their unique key only: the bytes before and
    behind that key, the code of their tags, and the index hash of these, -1 without tags.

    The properties begin at `start`. None if they have other keys, or no unique key.
    """
    at = stored.find(_UNIQUE_KEY, start)
    behind = stored.find(b"\x02", at)
    if at < 0 or behind <= at + _UNIQUE_KEY_SIZE:
        return None
    rest = (topic, stored[start:at], stored[behind:])
    facts = _facts.get(rest)
    if facts is None:
        if not _is_usual(stored[start:], at - start):
            return None
        facts = _note_facts(rest)
    return stored[: at + _UNIQUE_KEY_SIZE], stored[behind:], *facts


def _is_usual(properties: bytes, at: int) -> bool:
    """Whether there is one unique key, no other key, and little else."""
    return (
        (at == 0 or properties[at - 1] == 2)
        and properties.count(_UNIQUE_KEY) == 1
        and b"KEYS\x01" not in properties
        and len(properties) <= PROPERTIES_CACHED_MAX_BYTES
    )


def _note_facts(rest: tuple[str, bytes, bytes]) -> tuple[int, int]:
    """Code of the tags and their index hash, -1 without tags, of all messages with this rest."""
    topic, before, behind = rest
    tags = find_tags(before + behind)
    facts = (0, -1) if tags is None else (tag_code(tags), tag_index_hash(topic, tags))
    if len(_facts) >= FACTS_CACHED_MAX:
        _facts.clear()
    _facts[rest] = facts
    return facts
