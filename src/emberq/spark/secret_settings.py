"""Settings of Spark that are secrets: every user of a machine sees the words of a command.

Spark reads them from a file that only its owner can read. It is there until Spark has begun.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

REDACTED = "*********(redacted)"  # as Spark says it
_REGEX = "spark.redaction.regex"
_SECRET = "(?i)secret|password|token|access[.]?key|credential"  # Spark's own
_UNESCAPED = re.compile(r"[^A-Za-z0-9._-]")


def secret_keys(conf: Mapping[str, str]) -> set[str]:
    """Settings whose key or value says so, to the expression by which Spark hides them."""
    try:
        secret = re.compile(conf.get(_REGEX, _SECRET))
    except re.error:  # Java's expressions can do more: then nothing is shown
        return set(conf)
    return {key for key, value in conf.items() if secret.search(key) or secret.search(value)}


@contextmanager
def secrets_file(conf: Mapping[str, str], folder: Path) -> Iterator[list[str]]:
    """Words of spark-submit for the secrets among these settings, and the file that they name."""
    keys = sorted(secret_keys(conf))
    if not keys:
        yield []
        return
    file = folder / "secrets.properties"
    lines = [f"{_escaped(key)}={_escaped(conf[key])}\n" for key in keys]
    file.touch(mode=0o600, exist_ok=False)
    file.write_text("".join(lines), encoding="ascii")
    try:
        # Without the second one, a spark-defaults.conf would not count any more.
        yield ["--properties-file", str(file), "--load-spark-defaults"]
    finally:
        file.unlink(missing_ok=True)


def _escaped(text: str) -> str:
    """For a file of Java's properties, whatever the text holds."""
    return _UNESCAPED.sub(_code_units, text)


def _code_units(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
