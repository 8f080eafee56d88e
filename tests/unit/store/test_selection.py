"""Finding messages: by queue, offset, time, key, id, place in the log, and by walking the log."""

import struct
from pathlib import Path

import pytest

from emberq.errors import StoreError
from emberq.record.message_id import make_offset_id
from emberq.record.record import Record
from emberq.store.selection import MessageSelector, Selection
from emberq.store.view.directory import StoreView
from tests.support.store_builder import BORN_AT_MS, STORE_HOST, StoreBuilder, overwrite

SEGMENT = 4096


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    builder = StoreBuilder(tmp_path, segment_size=SEGMENT, entries_per_file=10)
    for number in range(60):
        builder.add(
            ("orders", "bills")[number % 2],
            number % 4 // 2,
            b"%d" % number,
            KEYS=f"k{number} even" if number % 2 == 0 else f"k{number}",
            UNIQ_KEY=f"{number:032X}",
        )
    return builder


def select(root: Path, **conditions: object) -> list[int]:
    """The numbers in the bodies of the selected messages."""
    records, warnings = select_with_warnings(root, **conditions)
    assert warnings == []
    return [int(bytes(record.body)) for record in records]


def select_with_warnings(root: Path, **conditions: object) -> tuple[list[Record], list[str]]:
    warnings: list[str] = []
    view = StoreView(root)
    selection = Selection(**conditions)  # type: ignore[arg-type]  # each test names its own
    records = list(MessageSelector(view, selection, on_damage=warnings.append))
    view.close()
    return records, warnings


def test_everything_comes_queue_by_queue(builder: StoreBuilder) -> None:
    found = select(builder.write())

    assert found == [
        *range(1, 60, 4),
        *range(3, 60, 4),
        *range(0, 60, 4),
        *range(2, 60, 4),
    ]


def test_the_log_gives_everything_in_its_own_order(builder: StoreBuilder) -> None:
    assert select(builder.write(), is_from_log=True) == list(range(60))


@pytest.mark.parametrize("is_from_log", [False, True])
def test_topic_queue_and_offsets_are_conditions(builder: StoreBuilder, is_from_log: bool) -> None:
    root = builder.write()

    assert select(root, topic="orders", queue_id=1, is_from_log=is_from_log) == [*range(2, 60, 4)]
    assert select(
        root, topic="orders", queue_id=1, offset_min=3, offset_max=5, is_from_log=is_from_log
    ) == [14, 18, 22]
    assert select(root, topic="nothing", is_from_log=is_from_log) == []


@pytest.mark.parametrize("is_from_log", [False, True])
def test_both_ends_of_a_time_range_belong_to_it(builder: StoreBuilder, is_from_log: bool) -> None:
    found = select(
        builder.write(),
        stored_from_ms=BORN_AT_MS + 11,
        stored_until_ms=BORN_AT_MS + 14,
        is_from_log=is_from_log,
    )

    assert sorted(found) == [10, 11, 12, 13]


@pytest.mark.parametrize("is_from_log", [False, True])
def test_a_key_or_a_unique_key_finds_its_messages(builder: StoreBuilder, is_from_log: bool) -> None:
    root = builder.write()

    assert select(root, key="k7", is_from_log=is_from_log) == [7]
    assert select(root, key="even", is_from_log=is_from_log) == [*range(0, 60, 2)]
    assert select(root, key=f"{9:032X}", is_from_log=is_from_log) == [9]
    assert select(root, key="k7", topic="orders", is_from_log=is_from_log) == []
    assert select(root, key="k", is_from_log=is_from_log) == []


@pytest.mark.parametrize("is_from_log", [False, True])
def test_an_id_is_an_offset_id_or_a_unique_key(builder: StoreBuilder, is_from_log: bool) -> None:
    root = builder.write()
    offset_id = make_offset_id(STORE_HOST, builder.placed[5].log_offset)

    assert select(root, message_id=offset_id, is_from_log=is_from_log) == [5]
    assert select(root, message_id=offset_id.lower(), is_from_log=is_from_log) == [5]
    assert select(root, message_id=f"{9:032X}", is_from_log=is_from_log) == [9]
    assert select(root, message_id="none", is_from_log=is_from_log) == []


def test_a_place_in_the_log_is_one_message(builder: StoreBuilder) -> None:
    root = builder.write()

    assert select(root, log_offset=builder.placed[41].log_offset) == [41]
    records, warnings = select_with_warnings(root, log_offset=3)
    assert records == []
    assert len(warnings) == 1


def test_the_limit_ends_the_search(builder: StoreBuilder) -> None:
    root = builder.write()

    assert select(root, is_from_log=True, limit=3) == [0, 1, 2]
    assert select(root, topic="orders", limit=2) == [0, 4]
    assert select(root, limit=0) == []


def test_damaged_messages_are_named_and_left_out(builder: StoreBuilder) -> None:
    root = builder.write()
    damaged = builder.placed[8]
    overwrite(root / "commitlog" / f"{0:020d}", damaged.log_offset + 88, b"\xff")

    records, warnings = select_with_warnings(root, topic="orders")
    _, log_warnings = select_with_warnings(root, is_from_log=True)

    assert len(records) == 29
    assert warnings[0].startswith("orders/0 offset 2: ")
    assert log_warnings == [f"the record at {damaged.log_offset} does not match its checksum"]


def test_times_are_found_across_damaged_messages(builder: StoreBuilder) -> None:
    root = builder.write()
    for placed in builder.placed[8:30]:
        position = placed.log_offset % SEGMENT
        path = root / "commitlog" / f"{placed.log_offset - position:020d}"
        overwrite(path, position, b"\xff" * 40)

    records, _ = select_with_warnings(root, topic="orders", stored_from_ms=BORN_AT_MS + 41)

    assert sorted(int(bytes(record.body)) for record in records) == [*range(40, 60, 2)]


def test_filler_entries_are_no_messages(builder: StoreBuilder) -> None:
    root = builder.write()
    queue = root / "consumequeue" / "orders" / "0" / f"{0:020d}"
    overwrite(queue, 0, struct.pack(">qiq", 0, 0x7FFFFFFF, 0) * 2)

    assert select(root, topic="orders", queue_id=0, offset_min=0, offset_max=3) == [8, 12]


def test_a_key_without_index_asks_for_the_log(builder: StoreBuilder) -> None:
    root = builder.write()
    next((root / "index").iterdir()).unlink()

    with pytest.raises(StoreError, match="--from-log"):
        select(root, key="k7")
    assert select(root, key="k7", is_from_log=True) == [7]
