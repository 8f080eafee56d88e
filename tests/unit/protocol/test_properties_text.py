"""Properties text, compared with what java.util.Properties makes of it."""

import json
from pathlib import Path

import pytest

from emberq.errors import ProtocolError
from emberq.protocol.properties_text import (
    PROPERTIES_SIZE_MAX_BYTES,
    read_properties,
    write_properties,
)

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


def test_the_longest_text_is_read_and_a_longer_one_refused() -> None:
    longest = b"\\" * PROPERTIES_SIZE_MAX_BYTES

    assert read_properties(longest) == {"\\" * (PROPERTIES_SIZE_MAX_BYTES // 2): ""}
    with pytest.raises(ProtocolError):
        read_properties(longest + b"a")
