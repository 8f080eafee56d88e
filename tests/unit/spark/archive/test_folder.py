"""A folder says what is in it, and when that was written."""

import os
from pathlib import Path

from emberq.spark.archive.folder import Folder


def test_every_file_is_known_with_the_time_it_was_written_at(tmp_path: Path) -> None:
    for name in ("a.parquet", "topic=x/b.parquet", "topic=x/.c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
        os.utime(path, (7, 7))

    folder = Folder(str(tmp_path))

    assert folder.modified_times() == {"a.parquet": 7, "topic=x/b.parquet": 7, "topic=x/.c": 7}
    assert folder.names("") == ["a.parquet"]
    assert Folder(str(tmp_path / "none")).modified_times() == {}
