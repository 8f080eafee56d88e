"""Index files of official brokers and the records that they index; README.md says how."""

import json
from pathlib import Path
from typing import Any

from emberq.store.dispatch import Dispatched

VERSIONS = ("4.9.7", "5.5.0")
_ROLLED_BACK = 12


class CapturedIndex:
    def __init__(self, version: str) -> None:
        path = Path(__file__).parent / f"{version}.json"
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self.slots: int = content["slots"]
        self.entries_max: int = content["entries_max"]
        self.files = {name: bytes.fromhex(text) for name, text in content["files"].items()}
        # Only brokers since 5.5 index tags.
        has_tags = version == "5.5.0"
        self.records = [_record(fields, has_tags=has_tags) for fields in content["records"]]

    def put_into(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


def _record(fields: dict[str, Any], *, has_tags: bool) -> Dispatched:
    return Dispatched(
        queue=None,
        queue_offset=0,
        log_offset=fields["log_offset"],
        size=fields["size"],
        tag_code=0,
        stored_at_ms=fields["stored_at_ms"],
        topic=fields["topic"],
        unique_key=fields["unique_key"],
        keys=fields["keys"],
        is_indexed=fields["system_flag"] & _ROLLED_BACK != _ROLLED_BACK,
        tags=fields["tags"] if has_tags else None,
    )
