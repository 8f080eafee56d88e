"""What the properties of a batch's messages mean for queue and index."""

from emberq.kernel.key_hashes import hash_into, tag_index_hash
from emberq.kernel.stored_properties import find_raw_keys, find_raw_tags, find_raw_unique_key
from emberq.record.string_hash import tag_code


class BatchKeys:
    """Collects keys message by message and hashes them together."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._tags: dict[bytes, tuple[int, int]] = {}  # code and index hash of tags met so far
        self._hashes: list[int] = []
        self._keys: list[bytes] = []
        self._places: list[int] = []  # where the hash of each key belongs
        self.owners: list[int] = []  # log offset of the record of each hash

    def note(self, properties: bytes, log_offset: int) -> int:
        """Take a message's keys in the order of the index; returns the code of its tags."""
        hashes, owners = self._hashes, self.owners
        if key := find_raw_unique_key(properties):
            self._places.append(len(hashes))
            self._keys.append(key)
            hashes.append(0)
            owners.append(log_offset)
        if b"KEYS\x01" in properties and (text := find_raw_keys(properties)):
            for key in text.split(b" "):
                if key:
                    self._places.append(len(hashes))
                    self._keys.append(key)
                    hashes.append(0)
                    owners.append(log_offset)
        tags = find_raw_tags(properties)
        if not tags:
            return 0
        if tags not in self._tags:
            tag = tags.decode("utf-8", "replace")
            self._tags[tags] = tag_code(tag), tag_index_hash(self._topic, tag)
        code, tag_hash = self._tags[tags]
        hashes.append(tag_hash)
        owners.append(log_offset)
        return code

    def hashes(self) -> list[int]:
        keys = [key.decode("utf-8", "replace") for key in self._keys]
        hash_into(self._hashes, self._places, [self._topic] * len(keys), keys)
        return self._hashes
