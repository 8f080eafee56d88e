"""The last record is torn at any byte: everything before it is kept, it never comes to life."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberq.testing.faulty_disk import FaultyDisk
from tests.support.stores import (
    HOST,
    HOST_IPV6,
    TOPIC,
    bodies_of,
    crash,
    new_store,
    opened,
    put,
    segment_path,
)

pytestmark = pytest.mark.property


def killed(disk: FaultyDisk, bodies: list[bytes], *, is_ipv6: bool, topic: str) -> int:
    """Put messages and die; returns where the last one begins."""
    store = new_store(disk.root, disk)
    store.open()
    host = HOST_IPV6 if is_ipv6 else HOST
    results = [put(store, body, topic=topic, tags="A", born_host=host) for body in bodies]
    crash(store)
    return results[-1].log_offset


@settings(max_examples=40, deadline=None)
@given(
    bodies=st.lists(st.binary(max_size=300), min_size=1, max_size=6),
    is_ipv6=st.booleans(),
    topic=st.sampled_from([TOPIC, "%RETRY%" + "g" * 150]),
    noise=st.sampled_from([b"\0", b"\xff", b"x"]),
    seed=st.integers(0, 2**32),
)
def test_a_record_torn_anywhere_is_cut_off(
    bodies: list[bytes], is_ipv6: bool, topic: str, noise: bytes, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        disk = FaultyDisk(Path(folder))
        last = killed(disk, bodies, is_ipv6=is_ipv6, topic=topic)
        whole = bytes(disk.content_of(segment_path(disk.root)))
        end = len(whole.rstrip(b"\0"))
        for cut in sorted({last, end - 1, *Random(seed).sample(range(last, end), 6)}):
            torn = disk.copy()
            tail = noise * (end - cut)
            torn.content_of(segment_path(disk.root))[cut:end] = tail
            with opened(disk.root, torn) as store:
                found = bodies_of(store, topic)
                # Without a checksum over properties a record torn within them counts as whole.
                assert found in (bodies[:-1], bodies)
                put(store, b"next", topic=topic)
            with opened(disk.root, torn) as store:
                assert bodies_of(store, topic) == [*found, b"next"]


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([10, 10, 10, 50]), min_size=2, max_size=8),
    torn=st.integers(0, 6),
    again=st.lists(st.sampled_from([10, 10, 50]), max_size=4),
)
def test_what_stood_behind_a_torn_record_never_comes_back(
    sizes: list[int], torn: int, again: list[int]
) -> None:
    """New records of the same sizes lead exactly to where the stale ones begin."""
    torn = min(torn, len(sizes) - 2)
    with tempfile.TemporaryDirectory() as folder:
        disk = FaultyDisk(Path(folder))
        store = new_store(disk.root, disk)
        store.open()
        results = [put(store, b"%d" % number * size) for number, size in enumerate(sizes)]
        crash(store)
        log = disk.content_of(segment_path(disk.root))
        log[results[torn].log_offset + 90] ^= 0xFF

        store = new_store(disk.root, disk)
        store.open()
        fresh = [b"n" * size for size in again]
        for body in fresh:
            put(store, body)
        crash(store)

        with opened(disk.root, disk) as store:
            kept = [b"%d" % number * size for number, size in enumerate(sizes[:torn])]
            assert bodies_of(store) == kept + fresh
