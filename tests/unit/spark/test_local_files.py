"""Which records of a queue are read from the log together, and where files end."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emberq.client.core.scanned import StoreHint
from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue
from emberq.record.decode import iter_records
from emberq.spark import local_files
from emberq.spark.local_files import LocalFiles, runs, slice_contents
from emberq.spark.options import parse_source
from emberq.spark.planning import QueueSlice
from emberq.store.disk import RealDisk
from emberq.store.store_id import renew_store_id
from emberq.store.view.directory import StoreView
from tests.unit.spark.store_files import TOPIC, write_store


def runs_of(*records: tuple[int, int]) -> list[tuple[int, int]]:
    """Of records given by position and size."""
    starts = np.array([at for at, _ in records], np.int64)
    return list(runs(starts, starts + np.array([size for _, size in records], np.int64)))


def test_neighbours_are_one_piece() -> None:
    assert runs_of((0, 100), (100, 50), (150, 70)) == [(0, 3)]


def test_little_between_records_is_read_along_and_much_is_not() -> None:
    assert runs_of((0, 100), (500, 100)) == [(0, 2)]
    assert runs_of((0, 100), (501, 100)) == [(0, 1), (1, 2)]


def test_records_that_lie_in_another_order_are_apart() -> None:
    assert runs_of((1000, 100), (0, 100), (100, 100)) == [(0, 1), (1, 3)]


def test_a_piece_has_a_largest_size_and_at_least_one_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_files, "PIECE_MAX_BYTES", 250)

    assert runs_of((0, 100), (100, 100), (200, 100), (300, 900), (1200, 10)) == [
        *((0, 2), (2, 3)),
        *((3, 4), (4, 5)),
    ]


def test_no_records_are_no_piece() -> None:
    assert runs_of() == []


QUEUE = MessageQueue("broker-a", 0, TOPIC)
BODY_BYTES = 1_000


class FakeLink:
    """Of a broker that says where its store is, and which id that has: it is a folder here."""

    def __init__(self, root: Path, store_id: str | None = None) -> None:
        own_id = renew_store_id(root, RealDisk())
        self.scans = self
        self.asked = 0
        self.stores = {"broker-a": StoreHint(str(root), own_id if store_id is None else store_id)}

    def wrapped(self, queue: MessageQueue) -> MessageQueue:
        return queue

    def run(self, *_: Any) -> None:
        self.asked += 1


def local(root: Path, each: QueueSlice, scan: str = "local") -> list[tuple[list[int], int]]:
    """Offsets of the records of each piece, and the offset behind it."""
    options = parse_source({"subscribe": TOPIC, "scan": scan})
    link: Any = FakeLink(root)
    return [
        ([record.queue_offset for record in iter_records(content)], behind)
        for content, behind in LocalFiles(link, options).contents(each)
    ]


def test_records_come_in_pieces_of_bounded_size_and_at_least_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "CONTENT_MAX_BYTES", 4 * BODY_BYTES)
    large = bytes(9 * BODY_BYTES)
    write_store(tmp_path, [bytes(BODY_BYTES)] * 4 + [large, large, b"", b""])

    pieces = local(tmp_path, QueueSlice(QUEUE, 0, 8))

    assert pieces == [([0, 1, 2], 3), ([3], 4), ([4], 5), ([5], 6), ([6, 7], 8)]


def test_pieces_of_some_tags_say_how_far_they_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "CONTENT_MAX_BYTES", 3 * BODY_BYTES)
    write_store(tmp_path, [bytes(BODY_BYTES)] * 8, tags=("red", "blue"))
    options = parse_source({"subscribe": TOPIC, "store": str(tmp_path), "tags": "red"})

    with closing(StoreView(tmp_path)) as view:
        found = list(slice_contents(view, QueueSlice(QUEUE, 0, 8), options))

    records = [[record.queue_offset for record in iter_records(content)] for content, _ in found]
    assert records == [[0, 2], [4, 6], []]
    assert [behind for _, behind in found] == [3, 7, 8]


@pytest.mark.parametrize("scan", ["local", "auto"])
def test_what_has_expired_from_the_files_is_left_to_the_broker(tmp_path: Path, scan: str) -> None:
    first, second, _ = write_store(tmp_path, [b"x"] * 6, per_segment=2)
    first.unlink()
    assert local(tmp_path, QueueSlice(QUEUE, 0, 6), scan) == []

    second.unlink()
    assert local(tmp_path, QueueSlice(QUEUE, 4, 6), scan) == [([4, 5], 6)]


def test_a_range_is_read_up_to_the_first_record_that_is_missing(tmp_path: Path) -> None:
    _, second, _ = write_store(tmp_path, [b"x"] * 6, per_segment=2)
    second.write_bytes(second.read_bytes()[:-1])

    assert local(tmp_path, QueueSlice(QUEUE, 0, 6)) == [([0, 1, 2], 3)]


def with_holes(root: Path, *holes: int, count: int = 8) -> None:
    """As the broker fills them: with the entry of the next message."""
    write_store(root, [b"x"] * count)
    entries = root / "consumequeue" / TOPIC / "0" / f"{0:020}"
    content = bytearray(entries.read_bytes())
    for hole in sorted(holes, reverse=True):
        content[20 * hole : 20 * hole + 20] = content[20 * hole + 20 : 20 * hole + 40]
    entries.write_bytes(content)


@pytest.mark.parametrize("together", [1, 2, 3, 4_096])
def test_a_hole_in_a_queue_doubles_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(local_files, "ENTRIES_TOGETHER", together)
    with_holes(tmp_path, 3, 4)

    whole = local(tmp_path, QueueSlice(QUEUE, 0, 8))
    ending_in_it = local(tmp_path, QueueSlice(QUEUE, 2, 4))

    assert [offset for offsets, _ in whole for offset in offsets] == [0, 1, 2, 5, 6, 7]
    assert [offset for offsets, _ in ending_in_it for offset in offsets] == [2]
    assert (whole[-1][1], ending_in_it[-1][1]) == (8, 4)


@pytest.mark.parametrize("scan", ["local", "auto"])
def test_files_that_are_deleted_while_they_are_read_end_a_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan: str
) -> None:
    monkeypatch.setattr(local_files, "CONTENT_MAX_BYTES", 1)
    monkeypatch.setattr(local_files, "ENTRIES_TOGETHER", 2)
    _, second = write_store(tmp_path, [b"x"] * 4, per_segment=2)
    link: Any = FakeLink(tmp_path)
    options = parse_source({"subscribe": TOPIC, "scan": scan})

    contents = LocalFiles(link, options).contents(QueueSlice(QUEUE, 0, 4))
    begun = next(contents)
    second.unlink()

    assert [begun[1], *(behind for _, behind in contents)] == [1, 2]


@pytest.mark.parametrize("scan", ["local", "auto"])
def test_files_that_are_cut_while_they_are_read_end_a_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan: str
) -> None:
    monkeypatch.setattr(local_files, "CONTENT_MAX_BYTES", 1)
    (segment,) = write_store(tmp_path, [b"x"] * 4)
    link: Any = FakeLink(tmp_path)
    options = parse_source({"subscribe": TOPIC, "scan": scan})

    contents = LocalFiles(link, options).contents(QueueSlice(QUEUE, 0, 4))
    begun = next(contents)
    segment.write_bytes(b"")

    assert [begun[1], *(behind for _, behind in contents)] == [1]


@pytest.mark.parametrize("store_id", ["", "0" * 32], ids=["of a broker of before", "another one"])
def test_files_of_another_broker_at_the_same_path_are_not_read(
    tmp_path: Path, store_id: str
) -> None:
    """Machines that are set up alike have equal paths, and equal inodes."""
    write_store(tmp_path, [b"of another broker"])
    link: Any = FakeLink(tmp_path, store_id)
    each = QueueSlice(QUEUE, 0, 1)

    auto = parse_source({"subscribe": TOPIC, "scan": "auto"})
    assert list(LocalFiles(link, auto).contents(each)) == []
    here = parse_source({"subscribe": TOPIC, "scan": "local"})
    with pytest.raises(ConfigError, match="the files of broker-a are not on this machine"):
        list(LocalFiles(link, here).contents(each))


def test_many_ranges_of_a_broker_open_its_store_once_and_ask_it_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said where its files are before, and they are those."""
    opened: list[Path] = []

    def counted(root: Path) -> StoreView:
        opened.append(root)
        return StoreView(root)

    monkeypatch.setattr(local_files, "StoreView", counted)
    write_store(tmp_path, [b"x"] * 9)
    link: Any = FakeLink(tmp_path)

    with closing(LocalFiles(link, parse_source({"subscribe": TOPIC, "scan": "local"}))) as files:
        found = [list(files.contents(QueueSlice(QUEUE, at, at + 1))) for at in range(9)]

    assert [behind for [(_, behind)] in found] == list(range(1, 10))
    assert (opened, link.asked) == ([tmp_path], 0)


def test_a_broker_whose_files_are_elsewhere_is_asked_once(tmp_path: Path) -> None:
    write_store(tmp_path, [b"of another broker"] * 9)
    link: Any = FakeLink(tmp_path, "0" * 32)

    with closing(LocalFiles(link, parse_source({"subscribe": TOPIC, "scan": "auto"}))) as files:
        found = [list(files.contents(QueueSlice(QUEUE, at, at + 1))) for at in range(9)]

    assert found == [[]] * 9
    assert link.asked == 2  # for the address, and where the files are
