"""Message properties as the text that requests and records carry: `name 01 value 02 ...`.

Writers differ in whether the last 02 is there (absent in 4.9.1 to 5.1.4); readers take both. The
format is docs/formats/properties.md.
"""

from collections.abc import Mapping

from emberq.errors import RecordError

NAME_END = "\x01"
VALUE_END = "\x02"
_VALUE_END_BYTES = b"\x02"


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties of a text by the official rule, which refuses nothing.

    What is no `name 01 value` disappears, and so do empty names and empty values. A further 01
    belongs to the value. Of several equal names the last wins.
    """
    properties: dict[str, str] = {}
    for item in text.split("\x02"):
        name, _, value = item.partition("\x01")
        if value and name:
            properties[name] = value
    return properties


def decode_properties(stored: bytes) -> dict[str, str]:
    """Return the properties of a record; bytes that are not UTF-8 become replacement characters."""
    return parse_properties(stored.decode("utf-8", "replace"))


def format_properties(properties: Mapping[str, str | None], *, is_terminated: bool = True) -> str:
    """Return the text of the properties; those without a value are left out.

    Args:
        is_terminated: whether the last value is followed by 02 too, as 5.5.0 writes it.

    Raises:
        RecordError: a name or value holds a separator and would be read as something else.
    """
    items = [f"{name}\x01{value}\x02" for name, value in properties.items() if value]
    text = "".join(items)
    # Counting is cheaper than looking into each part; a 01 inside a value is legal but rare.
    if text.count(VALUE_END) != len(items) or text.count(NAME_END) != len(items):
        _refuse_separators(properties)
    if "" in properties:
        raise RecordError("a property without a name cannot be written")
    return text if is_terminated else text[:-1]


def encode_properties(properties: Mapping[str, str | None], *, is_terminated: bool = True) -> bytes:
    """Return the properties as a record stores them; a lone surrogate becomes `?`, as in Java."""
    return format_properties(properties, is_terminated=is_terminated).encode("utf-8", "replace")


def find_property(text: str, name: str) -> str | None:
    """Return the value that `parse_properties` would give the name, without parsing the rest."""
    key = f"\x02{name}\x01"
    end = len(text)
    while (found := text.rfind(key, 0, end)) >= 0:
        start = found + len(key)
        stop = text.find("\x02", start)
        if stop != start and start < len(text):
            return text[start:] if stop < 0 else text[start:stop]
        end = found + 1  # an empty value does not count: an earlier one may
    if text.startswith(key[1:]):
        return text[len(key) - 1 :].partition("\x02")[0] or None
    return None


def find_stored_property(stored: bytes, name: bytes) -> bytes | None:
    """Return the value of one property of a record, without decoding the rest."""
    key = b"\x02%b\x01" % name
    end = len(stored)
    while (found := stored.rfind(key, 0, end)) >= 0:
        start = found + len(key)
        stop = stored.find(b"\x02", start)
        if stop != start and start < len(stored):
            return stored[start:] if stop < 0 else stored[start:stop]
        end = found + 1  # an empty value does not count: an earlier one may
    if stored.startswith(key[1:]):
        return stored[len(key) - 1 :].partition(b"\x02")[0] or None
    return None


def remove_property(text: str, name: str) -> str:
    """Return the text without any value of the name; all else keeps its order and its form."""
    prefix = f"{name}\x01"
    if prefix not in text:
        return text
    return VALUE_END.join(item for item in text.split(VALUE_END) if not item.startswith(prefix))


def join_properties(first: bytes, second: bytes) -> bytes:
    """Return both texts as one, with exactly one 02 between them."""
    if not first or not second or first.endswith(_VALUE_END_BYTES):
        return first + second
    return first + _VALUE_END_BYTES + second


def _refuse_separators(properties: Mapping[str, str | None]) -> None:
    for name, value in properties.items():
        if NAME_END in name or VALUE_END in name or VALUE_END in (value or ""):
            raise RecordError(f"property {name!r} holds a separator character")
