"""The short way to a property gives what the long way gives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberq.kernel.stored_properties import find_keys, find_tags, find_unique_key
from emberq.record.properties import find_stored_property

PIECES = st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"\1", b"\2", b"a", b"\xc3\xa9", b"\xff"])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_both_ways_agree_on_any_bytes(stored: bytes) -> None:
    for name, find in ((b"TAGS", find_tags), (b"KEYS", find_keys), (b"UNIQ_KEY", find_unique_key)):
        expected = find_stored_property(stored, name)
        assert find(stored) == (None if expected is None else expected.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("stored", "tags"),
    [
        (b"TAGS\1A\2", "A"),
        (b"TAGS\1A", "A"),
        (b"KEYS\1k\2TAGS\1A", "A"),
        (b"TAGS\1A\2TAGS\1B\2", "B"),
        (b"TAGS\1A\2TAGS\1\2", "A"),
        (b"TAGS\1\2", None),
        (b"XTAGS\1A\2", None),
        (b"", None),
    ],
)
def test_the_last_value_that_is_not_empty_counts(stored: bytes, tags: str | None) -> None:
    assert find_tags(stored) == tags
