"""Values of a record's properties that queues and index need, found without parsing the rest."""

from collections.abc import Callable

from emberq.record.properties import find_stored_property


def _finder(name: bytes) -> Callable[[bytes], str | None]:
    """`find_stored_property` for one name, with the common case first: recovery lives on it."""
    key = b"\x02%b\x01" % name
    first, size = key[1:], len(key)

    def find(stored: bytes) -> str | None:
        found = stored.rfind(key)
        if found >= 0:
            start = found + size
            stop = stored.find(b"\x02", start)
            value = stored[start:stop] if stop >= 0 else stored[start:]
        elif stored.startswith(first):
            value = b""
        else:
            return None
        if not value:  # the first property, or an empty one that does not count
            value = find_stored_property(stored, name) or b""
        return value.decode("utf-8", "replace") if value else None

    return find


find_tags = _finder(b"TAGS")
find_keys = _finder(b"KEYS")
find_unique_key = _finder(b"UNIQ_KEY")
find_delay = _finder(b"DELAY")
