"""The key index against a plain dictionary, and after power failures at any moment."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberq.kernel.key_hashes import KEYS_AT_ONCE_MAX, index_hashes
from emberq.record.string_hash import index_hash
from emberq.store.dispatch import Dispatched
from emberq.store.index_layout import HEADER_SIZE
from emberq.store.key_index import KeyIndex
from tests.support.index_records import ALL_TIME, assert_answers, index_in, indexed_record
from tests.support.power_loss_disk import PowerLossDisk, scratch_folder

pytestmark = pytest.mark.property

T = 1_760_000_000_000
SLOTS, ENTRIES_MAX = 7, 12
PAGE_SIZE = 64  # a page tears through a few entries

texts = st.text(max_size=70) | st.text("abc019-_", max_size=40)


@given(st.lists(st.tuples(texts, texts), max_size=KEYS_AT_ONCE_MAX))
def test_many_keys_at_once_hash_as_one_at_a_time(pairs: list[tuple[str, str]]) -> None:
    topics, keys = [topic for topic, _ in pairs], [key for _, key in pairs]

    assert index_hashes(topics, keys) == [index_hash(f"{topic}#{key}") for topic, key in pairs]


@st.composite
def logs(draw: st.DrawFn) -> list[Dispatched]:
    """Records one after the other, few keys so that they meet, some records without any."""
    words = st.sampled_from(["a", "b", "c", "größe", "polygenelubricants"])
    records = []
    log_offset, stored_at_ms = draw(st.sampled_from([0, 4096])), T
    for number in range(draw(st.integers(1, 40))):
        size = draw(st.integers(1, 300))
        stored_at_ms += draw(st.sampled_from([0, 1, 700, 5000]))
        records.append(
            indexed_record(
                log_offset,
                f"unique-{number}" if draw(st.booleans()) else None,
                keys=" ".join(draw(st.lists(words, max_size=3))),
                tags=draw(st.none() | words),
                stored_at_ms=stored_at_ms,
                size=size,
            )
        )
        log_offset += size
    return records


def index_on(disk: PowerLossDisk, folder: Path) -> KeyIndex:
    taken = len(disk.list(folder))
    names = (f"{number:017d}" for number in range(taken + 1, 1000))
    return index_in(
        folder,
        disk=disk,
        slots=SLOTS,
        entries_max=ENTRIES_MAX,
        names=names,
        is_loaded=False,
    )


def below(records: list[Dispatched], log_offset: int) -> int:
    """How many records start below an offset."""
    return sum(record.log_offset < log_offset for record in records)


def has_entries(record: Dispatched) -> bool:
    return bool(record.unique_key is not None or record.keys or record.tags)


@settings(max_examples=150, deadline=None)
@given(records=logs(), data=st.data())
def test_after_power_loss_the_index_is_exactly_that_of_the_records_it_claims(
    records: list[Dispatched], data: st.DataObject
) -> None:
    with scratch_folder() as root:
        folder = Path(root) / "index"
        disk = PowerLossDisk(PAGE_SIZE)
        safe = 0
        added = 0
        # Recovery finishes full files before it syncs: a crash of it may leave their headers
        # without their entries, which is found, reported and made good from the log.
        may_be_torn = False
        for _ in range(data.draw(st.integers(1, 3), label="crashes")):
            index = index_on(disk, folder)
            problems = index.load(is_after_crash=True, safe_log_offset=safe)
            assert not problems or may_be_torn
            kept = below(records, index.end_log_offset)
            # The last record of a full file is indexed again, and what has no entry behind it.
            again = records[kept : below(records, safe)]
            assert sum(map(has_entries, again)) <= 1 or problems or not disk.list(folder)
            may_be_torn = False
            assert kept <= added
            assert_answers(index, records[:kept], records[kept:])

            added = kept
            safe = index.durable_log_offset
            for step in data.draw(st.lists(st.sampled_from("aawrs"), max_size=12), label="steps"):
                if step == "a":
                    count = data.draw(st.integers(1, 8), label="records")
                    index.add(records[added : added + count])
                    added = min(added + count, len(records))
                elif step == "w":
                    index.write_entries()
                elif step == "r":
                    index.write()
                    may_be_torn = True
                else:
                    index.sync()
                    safe = index.durable_log_offset
                    may_be_torn = False
            assert_answers(index, records[:added], records[added:])
            index.close()
            disk.lose_power(
                lambda _path, _page, count: data.draw(st.integers(0, count - 1), label="version"),
                forgets_folders=data.draw(st.booleans(), label="forgets folders"),
            )


@settings(max_examples=100, deadline=None)
@given(records=logs(), data=st.data())
def test_what_is_added_again_after_power_loss_gives_the_files_of_a_quiet_life(
    records: list[Dispatched], data: st.DataObject
) -> None:
    with scratch_folder() as root:
        quiet_disk, disk = PowerLossDisk(PAGE_SIZE), PowerLossDisk(PAGE_SIZE)
        quiet = index_on(quiet_disk, Path(root) / "quiet")
        quiet.add(records)
        quiet.sync()
        quiet.close()

        folder = Path(root) / "index"
        index = index_on(disk, folder)
        synced = data.draw(st.integers(0, len(records)), label="synced")
        written = data.draw(st.integers(synced, len(records)), label="written")
        index.add(records[:synced])
        index.sync()
        safe = index.durable_log_offset
        index.add(records[synced:written])
        index.write()
        index.close()
        disk.lose_power(
            lambda _path, _page, count: data.draw(st.integers(0, count - 1), label="version")
        )

        again = index_on(disk, folder)
        again.load(is_after_crash=True, safe_log_offset=safe)
        again.add(records)
        again.sync()
        again.close()

        assert contents_of(folder) == contents_of(Path(root) / "quiet")


def contents_of(folder: Path) -> list[bytes]:
    """Files that have entries, without names; without the end time, which may lack its fraction."""
    contents = [path.read_bytes() for path in sorted(folder.iterdir())]
    return [
        content[:8] + content[16:]
        for content in contents
        if int.from_bytes(content[HEADER_SIZE - 4 : HEADER_SIZE], "big") > 1
    ]


@settings(max_examples=150, deadline=None)
@given(records=logs(), data=st.data())
def test_damage_anywhere_is_survived_and_cured_by_adding_again(
    records: list[Dispatched], data: st.DataObject
) -> None:
    with scratch_folder() as root:
        folder = Path(root) / "index"
        disk = PowerLossDisk(PAGE_SIZE)
        index = index_on(disk, folder)
        index.add(records)
        index.sync()
        index.close()
        for path in folder.iterdir():
            path.write_bytes(data.draw(damages(path), label=path.name)(path.read_bytes()))

        again = index_on(disk, folder)
        is_after_crash = data.draw(st.booleans(), label="after a crash")
        again.load(is_after_crash=is_after_crash, safe_log_offset=index.end_log_offset)
        for key in ("a", "b", "größe", "T#a", "unique-3"):
            found = again.find("TopicA", key, 1000, *ALL_TIME)
            assert len(found) <= ENTRIES_MAX * 40
        again.add(records)
        again.sync()
        again.truncate(0)
        again.add(records)
        assert_answers(again, records, [])
        again.close()


def damages(path: Path) -> st.SearchStrategy[Callable[[bytes], bytes]]:
    size = path.stat().st_size
    flips = st.builds(
        lambda at, mask: lambda c: c[:at] + bytes([c[at] ^ mask]) + c[at + 1 :],
        st.integers(0, size - 1),
        st.integers(1, 255),
    )
    cuts = st.builds(lambda at: lambda c: c[:at], st.integers(0, size))
    return st.just(lambda c: c) | flips | cuts


@settings(max_examples=100, deadline=None)
@given(records=logs(), data=st.data())
def test_times_select_what_a_plain_search_selects(
    records: list[Dispatched], data: st.DataObject
) -> None:
    with scratch_folder() as root:
        index = index_on(PowerLossDisk(), Path(root) / "index")
        index.add(records)
        begin = data.draw(st.integers(T - 2000, records[-1].stored_at_ms + 2000), label="begin")
        end = data.draw(st.integers(begin, records[-1].stored_at_ms + 4000), label="end")

        found = index.find("TopicA", "a", 1000, begin, end)

        carriers = [r for r in records for word in (r.keys or "").split(" ") if word == "a"]
        surely = [r.log_offset for r in carriers if begin + 1000 <= r.stored_at_ms <= end]
        perhaps = [r.log_offset for r in carriers if begin <= r.stored_at_ms <= end + 1000]
        assert set(surely) <= set(found) <= set(perhaps)
        assert found == sorted(found, reverse=True)
        index.close()
