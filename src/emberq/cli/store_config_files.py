"""What the broker's files beside its messages hold: config/*.json, in short."""

from pathlib import Path
from typing import Any

import msgspec

from emberq.errors import ProtocolError
from emberq.protocol.fastjson import read_json

# File → (member that holds the table, what is counted).
_TABLES = {
    "topics.json": ("topicConfigTable", "topics"),
    "subscriptionGroup.json": ("subscriptionGroupTable", "consumer groups"),
    "consumerOffset.json": ("offsetTable", "pairs of topic and group"),
    "delayOffset.json": ("offsetTable", "delay levels"),
    "consumerFilter.json": ("filterDataByTopic", "topics with filters"),
}


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One file of `config/`."""

    name: str
    size_bytes: int = 0
    modified_at_ms: int = 0
    count: int | None = None
    counted: str | None = None
    version: int | None = None  # how often it was changed
    problem: str | None = None


def config_files(root: Path) -> list[ConfigFile]:
    """The files that are there. Their `.bak` is what brokers read when a file is damaged."""
    found = [root / "config" / name for name in _TABLES]
    return [_config_file(path) for path in found if path.exists()]


def known_topics(root: Path) -> frozenset[str] | None:
    """Names in topics.json; None if it is not there or cannot be read."""
    try:
        table = _read(root / "config" / "topics.json").get("topicConfigTable")
    except (OSError, ProtocolError):
        return None
    return frozenset(map(str, table)) if isinstance(table, dict) else None


def _config_file(path: Path) -> ConfigFile:
    try:
        status = path.stat()
        content = _read(path)
    except OSError as error:
        return ConfigFile(name=path.name, problem=error.strerror or str(error))
    except ProtocolError as error:
        return ConfigFile(name=path.name, problem=str(error))
    member, counted = _TABLES[path.name]
    table = content.get(member)
    version = content.get("dataVersion")
    return ConfigFile(
        name=path.name,
        size_bytes=status.st_size,
        modified_at_ms=status.st_mtime_ns // 1_000_000,
        count=len(table) if isinstance(table, dict) else 0,
        counted=counted,
        version=version.get("counter") if isinstance(version, dict) else None,
    )


def _read(path: Path) -> dict[Any, Any]:
    content = read_json(path.read_bytes())
    if not isinstance(content, dict):
        raise ProtocolError("not a JSON object")
    return content
