"""Values of a record's properties that queues and index need, found without parsing the rest."""

from collections.abc import Callable

from emberq.record.properties import find_stored_property


def _raw_finder(name: bytes) -> Callable[[bytes], bytes | None]:
    """`find_stored_property` for one name, with the common case first: recovery lives on it."""
    key = b"\x02%b\x01" % name
    first, size = key[1:], len(key)

    def find(stored: bytes) -> bytes | None:
        found = stored.rfind(key)
        if found >= 0:
            start = found + size
        elif stored.startswith(first):
            start = size - 1
        else:
            return None
        stop = stored.find(b"\x02", start)
        value = stored[start:stop] if stop >= 0 else stored[start:]
        # An empty one does not count: an earlier one may.
        return value or find_stored_property(stored, name)

    return find


def _finder(find_raw: Callable[[bytes], bytes | None]) -> Callable[[bytes], str | None]:
    def find(stored: bytes) -> str | None:
        value = find_raw(stored)
        return value.decode("utf-8", "replace") if value else None

    return find


find_raw_tags = _raw_finder(b"TAGS")
find_raw_keys = _raw_finder(b"KEYS")
find_raw_unique_key = _raw_finder(b"UNIQ_KEY")
find_tags = _finder(find_raw_tags)
find_keys = _finder(find_raw_keys)
find_unique_key = _finder(find_raw_unique_key)
find_delay = _finder(_raw_finder(b"DELAY"))
