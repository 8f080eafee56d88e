"""From `name = value` pairs to typed settings and back, for every configuration file we read.

Settings are structs whose wire names are the official keys; each package owns its own.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict, fields

from emberq.errors import ConfigError

S = TypeVar("S", bound=Struct)

_TYPE_WORDS: dict[Any, str] = {int: "a whole number", bool: "true or false", float: "a number"}


def keys_of(settings_type: type[Struct]) -> list[str]:
    return [field.encode_name for field in fields(settings_type)]


def read_settings(settings_type: type[S], properties: Mapping[str, str]) -> S:
    """Settings of this type from the keys that belong to it; absent keys keep their default.

    Raises:
        ConfigError: a value is not of its key's type; the message names both.
    """
    values: dict[str, Any] = {}
    for field in fields(settings_type):
        text = properties.get(field.encode_name)
        if text is None:
            continue
        values[field.name] = _parse(field.encode_name, field.type, text.strip())
    return settings_type(**values)


def to_properties(settings: Struct) -> dict[str, str]:
    """All keys with their current values, as text."""
    names = {field.name: field.encode_name for field in fields(settings)}
    return {
        names[name]: _text(value) for name, value in asdict(settings).items() if value is not None
    }


def to_file(properties: Mapping[str, str]) -> bytes:
    """The text of a configuration file; reading it gives these properties again.

    Official servers write values as they are. A backslash or a line break in one would then be
    something else at the next start, up to a key that nobody may change.
    """
    lines = [f"{_escaped(name, ' =:#!')}={_escaped(text)}\n" for name, text in properties.items()]
    return "".join(lines).encode("latin-1")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one probably means."""
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it

    by_lower = {candidate.lower(): candidate for candidate in known}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[found[0]] if found else None


def _parse(key: str, kind: Any, text: str) -> Any:
    if kind is str:
        return text
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
    else:
        try:
            return convert(text, kind, strict=False)
        except ValidationError:
            pass
    expected = _TYPE_WORDS.get(kind, "a value of its kind")
    raise ConfigError(f"{key}={text!r}: expected {expected}")


_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def _escaped(text: str, separators: str = "") -> str:
    leading = len(text) - len(text.lstrip(" "))
    parts = ["\\ " * leading]
    for character in text[leading:]:
        if character in separators:
            parts.append(f"\\{character}")
        elif character > "\xff":
            units = character.encode("utf-16-be", "surrogatepass").hex()
            parts += [f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)]
        else:
            parts.append(_ESCAPES.get(character, character))
    return "".join(parts)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
