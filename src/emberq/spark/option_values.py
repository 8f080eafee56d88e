"""Texts of options as values: numbers with units, times, durations, choices. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from emberq.config_file import nearest
from emberq.errors import ConfigError

# Spark gives the options of a table with this in front, and sometimes without it too.
OF_TABLES = "option."
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+)\s*([kmg]?)b?", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", re.IGNORECASE)


class OptionTexts:
    """Options by name in any case; a name that is not known is an error with the nearest one."""

    def __init__(
        self, given: Mapping[str, str], known: Sequence[str], ignored: Collection[str] = ()
    ) -> None:
        names = {name.lower(): name for name in known}
        dropped = {name.lower() for name in ignored}
        self._texts: dict[str, str] = {}
        # Those of tables first: what is given directly counts.
        for key in sorted(given, key=lambda each: not each.lower().startswith(OF_TABLES)):
            bare = key.lower().removeprefix(OF_TABLES)
            name = names.get(bare)
            if name is not None:
                self._texts[name] = str(given[key]).strip()
            elif bare not in dropped:
                raise _unknown(key, known)

    def get(self, name: str) -> str | None:
        """None: not given, or empty."""
        return self._texts.get(name) or None

    def names(self) -> list[str]:
        """Those that are given, as they are spelt in documents."""
        return [name for name, text in self._texts.items() if text]

    def all_given(self, *names: str) -> list[str]:
        return [name for name in names if self.get(name) is not None]

    def choice(self, name: str, values: Sequence[str], default: str) -> str:
        text = (self.get(name) or default).lower()
        if text not in values:
            raise _wrong(name, text, f"one of {', '.join(values)}")
        return text

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), "true" if default else "false") == "true"

    def count(self, name: str, default: int | None = None, low: int = 1) -> int | None:
        text = self.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or int(text) < low:
            raise _wrong(name, text, f"a number from {low} on")
        return int(text)

    def size(self, name: str, default: int | None = None) -> int | None:
        text = self.get(name)
        if text is None:
            return default
        found = _SIZE.fullmatch(text)
        if found is None or int(found[1]) == 0:
            raise _wrong(name, text, "a size such as 65536, 512k, 16m or 1g")
        return int(found[1]) * _UNITS[found[2].lower()]

    def seconds(self, name: str, default: float) -> float:
        text = self.get(name)
        if text is None:
            return default
        found = _DURATION.fullmatch(text)
        if found is None:
            raise _wrong(name, text, "a duration such as 500ms, 30s, 15m or 1h")
        return float(found[1]) * _SECONDS[found[2].lower()]

    def time_ms(self, name: str) -> int | None:
        text = self.get(name)
        return None if text is None else parse_time_ms(name, text)


def parse_time_ms(name: str, text: str) -> int:
    """Milliseconds since 1970, or ISO 8601; without a zone it is UTC."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _wrong(name, text, "milliseconds since 1970 or a time in ISO 8601") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _wrong(name: str, text: str, expected: str) -> ConfigError:
    return ConfigError(f"{name}={text!r}: expected {expected}")


def _unknown(key: str, known: Sequence[str]) -> ConfigError:
    near = nearest(key, known)
    hint = f"did you mean {near}?" if near else "see docs/reference/spark-options.md"
    return ConfigError(f"there is no option {key!r}: {hint}")
