"""Configuration files: what is written is what is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.config_file import to_file
from emberq.protocol.properties_text import read_properties, write_properties

pytestmark = pytest.mark.property


@given(st.dictionaries(st.text(), st.text()))
def test_a_file_reads_back_as_what_was_written(properties: dict[str, str]) -> None:
    assert read_properties(to_file(properties)) == properties


@given(st.lists(st.integers(0, 0xFFFF)))
def test_whatever_escapes_spell_can_be_written_again(units: list[int]) -> None:
    escaped = "".join(f"\\u{unit:04x}" for unit in units)

    properties = read_properties(f"key={escaped}".encode())

    assert write_properties(properties)
    assert read_properties(to_file(properties)) == properties
