"""Tables, sizes, times and progress."""

import io
import sys

import click
import pytest

from emberq.cli.output import (
    Column,
    echo_json,
    echo_table,
    format_size,
    format_time,
    iso_time,
    progress_bar,
)


def test_columns_are_as_wide_as_their_widest_cell(capsys: pytest.CaptureFixture[str]) -> None:
    echo_table([Column("NAME"), Column("N", True)], [["a", "1"], ["longer", "1,000"]])

    lines = click.unstyle(capsys.readouterr().out).splitlines()
    assert lines == ["NAME        N", "a           1", "longer  1,000"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1 << 30, "1.0 GiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert format_size(size) == text


def test_iso_times_are_utc_to_the_millisecond() -> None:
    assert iso_time(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
    assert iso_time(2**62) is None


def test_times_that_cannot_be_are_shown_as_numbers() -> None:
    assert format_time(None) == "-"
    assert format_time(0) == "-"
    assert format_time(2**62) == f"({2**62})"


def test_json_has_a_readable_twin_of_every_time(capsys: pytest.CaptureFixture[str]) -> None:
    echo_json({"list": [{"storedAtMs": 1_700_000_000_000}], "endAtMs": 0})

    output = capsys.readouterr().out
    assert '"storedAt": "2023-11-14T22:13:20.000Z"' in output
    assert '"endAt": null' in output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar("Reading") as progress:
        assert progress is None

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("emberq.cli.output._BAR_DELAY_S", 0)
    with progress_bar("Reading") as progress:
        assert progress is not None
        progress(1, 2)
        progress(5, 2)  # more than was expected is no failure
    assert "Reading" in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def test_what_is_done_soon_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("emberq.cli.output._BAR_DELAY_S", 3600)

    with progress_bar("Reading") as progress:
        assert progress is not None
        progress(1, 2)

    assert terminal.getvalue() == ""
