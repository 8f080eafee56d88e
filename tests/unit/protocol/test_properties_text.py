"""Properties text, compared with what java.util.Properties makes of it."""

import json
from pathlib import Path

import pytest

from emberq.errors import ProtocolError
from emberq.protocol.properties_text import read_properties, write_properties

GOLDEN = Path(__file__).parents[2] / "golden" / "bodies" / "properties.tsv"
CASES = [line.split("\t") for line in GOLDEN.read_text("utf-8").splitlines()]


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_reads_as_java_does(source: str, expected: str) -> None:
    data = json.loads(source).encode("latin-1")

    if expected == "malformed":
        with pytest.raises(ProtocolError):
            read_properties(data)
    else:
        assert read_properties(data) == json.loads(expected)


def test_text_that_is_already_decoded_keeps_its_alphabet() -> None:
    assert read_properties("name=日本") == {"name": "日本"}


def test_lines_are_written_raw_and_in_order() -> None:
    assert write_properties({"b": "C:\\x", "a": "1=2"}) == b"b=C:\\x\na=1=2\n"


def test_a_long_text_without_line_ends_is_read_in_linear_time() -> None:
    assert read_properties(b"a" * 1_000_000) == {"a" * 1_000_000: ""}
    assert read_properties(b"\\" * 1_000_000) == {"\\" * 500_000: ""}
    assert read_properties(b" " * 1_000_000) == {}
