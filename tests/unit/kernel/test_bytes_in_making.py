"""Bytes are filled where they will stay."""

import os
from pathlib import Path
from typing import Any

from tests.support.twins import both_twins


@both_twins
def test_a_system_call_fills_them(twin: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    made = twin.BytesInMaking(6)

    with path.open("rb") as file:
        count = os.preadv(file.fileno(), [made], 2)

    assert (count, len(made), made.finished()) == (6, 6, b"234567")
    assert type(made.finished()) is bytes


@both_twins
def test_they_are_filled_in_parts(twin: Any) -> None:
    made = twin.BytesInMaking(4)

    memoryview(made)[2:] = b"cd"
    memoryview(made)[:2] = b"ab"

    assert made.finished() == b"abcd"


@both_twins
def test_a_view_outlives_who_made_them(twin: Any) -> None:
    view = memoryview(twin.BytesInMaking(100_000))

    view[:] = bytes(100_000)

    assert not any(view)


@both_twins
def test_there_may_be_none(twin: Any) -> None:
    assert twin.BytesInMaking(0).finished() == b""
