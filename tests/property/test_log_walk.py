"""Damage anywhere in a log costs the records that it touches, and no others."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberq.store.disk import RealDisk
from emberq.store.view.files import ReadOnlyFiles
from emberq.store.view.log import LogView
from emberq.store.view.walk import LogRecord, LogWalk
from tests.support.store_builder import StoreBuilder, overwrite

pytestmark = pytest.mark.property

SEGMENT = 1024


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=20),
    place=st.floats(0, 1, exclude_max=True),
    damage=st.binary(min_size=1, max_size=200),
)
def test_records_that_damage_does_not_touch_are_found(
    sizes: list[int], place: float, damage: bytes
) -> None:
    with TemporaryDirectory() as folder:
        builder = StoreBuilder(Path(folder), segment_size=SEGMENT)
        for size in sizes:
            builder.add(body=b"b" * size)
        root = builder.write()
        at = int(builder.end * place)
        position = at % SEGMENT
        content = damage[: SEGMENT - position]
        overwrite(root / "commitlog" / f"{at - position:020d}", position, content)
        files = ReadOnlyFiles(RealDisk())
        walk = LogWalk(LogView(files, [root / "commitlog"]), is_crc_checked=True)
        found = {
            item.log_offset for item in walk if isinstance(item, LogRecord) and item.is_body_intact
        }
        files.close()

    untouched = {
        placed.log_offset
        for placed in builder.placed
        if placed.log_offset + placed.size <= at or placed.log_offset >= at + len(content)
    }
    assert untouched <= found
