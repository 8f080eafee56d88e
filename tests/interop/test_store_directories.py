"""Store directories move between official brokers and EmberQ, either way, and nothing is lost."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from emberq.broker.metadata_files import MetadataFiles
from emberq.errors import StoreInUse
from emberq.model.topic import TopicConfig
from emberq.protocol.bodies.topics import TopicTable
from emberq.store.disk import RealDisk
from emberq.store.key_index import KeyIndex
from emberq.store.log_scan import LogScan
from emberq.store.recovery import dispatched_from
from emberq.store.tag_codes import TagCodes
from tests.interop.harness.artifacts import LINES, Line
from tests.interop.store_checks import (
    check_found_every_way,
    check_queues_and_index_hold_the_log,
    files_in,
    messages_of,
    opened,
    stored_checkpoint,
)
from tests.interop.store_journey import AGED_MS, Journey, send_every_kind
from tests.interop.store_messages import SeenMessage
from tests.interop.store_sizes import INDEX_ENTRIES_MAX, INDEX_SLOTS, QUEUE_COUNT, TOPIC
from tests.interop.store_station import Ending, Station, copy_store

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def station(line: Line, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Station]:
    station = Station(line, tmp_path_factory.mktemp(f"station-{line.name}-"))
    try:
        yield station
    finally:
        station.end()


@pytest.fixture(scope="module")
def official_messages(station: Station) -> list[SeenMessage]:
    """What an official broker took and served again, before it was stopped."""
    station.bring(None)
    with station.serving(Ending.CLOSED):
        messages = send_every_kind(station, "first")
    station.keep("official")
    return messages


@pytest.fixture
def official_store(
    station: Station, official_messages: list[SeenMessage], tmp_path: Path
) -> Iterator[Path]:
    """A copy of that broker's directory."""
    root = tmp_path / "store"
    copy_store(station.kept("official"), root)
    yield root
    shutil.rmtree(root)


def test_emberq_finds_official_messages_by_queue_key_id_and_time(
    official_store: Path, official_messages: list[SeenMessage], station: Station
) -> None:
    with opened(official_store, station.port) as store:
        assert messages_of(store) == official_messages
        check_found_every_way(store, official_messages)
        record_count = check_queues_and_index_hold_the_log(store)

    assert record_count > len(official_messages)  # delayed and half messages have records too


def test_opening_an_official_store_changes_none_of_its_messages(
    official_store: Path, station: Station
) -> None:
    folders = [official_store / name for name in ("commitlog", "consumequeue", "index")]
    before = [files_in(folder) for folder in folders]
    # 4.9 brokers choose by these times in which queue file to look for a store time.
    times_before = [path.stat().st_mtime_ns for path in sorted(folders[1].rglob("0*"))]

    with opened(official_store, station.port):
        pass

    assert [files_in(folder) for folder in folders] == before
    times = [path.stat().st_mtime_ns for path in sorted(folders[1].rglob("0*"))]
    assert times == times_before


def test_rebuilt_queues_and_index_are_byte_for_byte_the_official_ones(
    official_store: Path, station: Station
) -> None:
    queues = files_in(official_store / "consumequeue")
    index = files_in(official_store / "index")
    shutil.rmtree(official_store / "consumequeue")
    shutil.rmtree(official_store / "index")

    with opened(official_store, station.port):
        pass

    assert files_in(official_store / "consumequeue") == queues
    assert len(index) > 1
    if station.line.is_v5:
        # Files are named after the time at which they were made.
        assert list(files_in(official_store / "index").values()) == list(index.values())
    else:
        assert index_without_tags(official_store, list(index), station.port) == index


def index_without_tags(root: Path, names: list[str], port: int) -> dict[str, bytes]:
    """Index files as brokers before 5.5 make them."""
    folder = root / "index-without-tags"
    folder.mkdir()
    index = KeyIndex(
        RealDisk(),
        folder,
        slots=INDEX_SLOTS,
        entries_max=INDEX_ENTRIES_MAX,
        new_name=iter(names).__next__,
    )
    with opened(root, port) as store:
        dispatched = [
            dispatched_from(record, store.queues, TagCodes()) for record in LogScan(store.log, 0)
        ]
    index.add([replace(record, tags=None) for record in dispatched])
    index.sync()
    index.write_ends()
    index.close()
    return files_in(folder)


def test_an_open_store_tells_official_brokers_to_trust_its_index(
    official_store: Path, station: Station
) -> None:
    official = stored_checkpoint(official_store)

    with opened(official_store, station.port) as store:
        assert store.index is not None
        stored_at_ms, _ = store.index.last_indexed
        log_end = store.log.end
        # A broker that starts after a crash deletes index files that are newer than this.
        assert official.index_timestamp_ms < stored_at_ms
        assert stored_checkpoint(official_store).index_timestamp_ms == stored_at_ms

    closed = stored_checkpoint(official_store)
    assert closed.log_timestamp_ms == closed.queues_timestamp_ms == stored_at_ms
    assert closed.dispatched_offset == closed.confirmed_offset == log_end


def test_an_official_topic_table_is_read(official_store: Path) -> None:
    topic = MetadataFiles(official_store).topics.load().topics[TOPIC]

    assert (topic.read_queue_count, topic.write_queue_count) == (QUEUE_COUNT, QUEUE_COUNT)


def test_a_store_travels_from_an_official_broker_to_emberq_and_back(
    station: Station, official_messages: list[SeenMessage]
) -> None:
    station.bring(station.kept("official"))
    journey = Journey(station, official_messages)

    journey.append_with_emberq(Ending.KILLED)
    with (
        journey.official_broker(Ending.KILLED),
        pytest.raises(StoreInUse),
        opened(station.store, station.port),
    ):
        pass
    journey.append_with_emberq(Ending.CLOSED)
    with journey.official_broker(Ending.KILLED):
        pass


def test_an_emberq_store_travels_to_an_official_broker_and_back(station: Station) -> None:
    begin_emberq_store(station)
    journey = Journey(station, [])

    # So old that a broker which recovers does not read all of it: only the index has its keys.
    journey.append_with_emberq(Ending.CLOSED, age_ms=2 * AGED_MS)
    journey.append_with_emberq(Ending.CLOSED, age_ms=AGED_MS)
    journey.append_with_emberq(Ending.KILLED)
    index_files = set(files_in(station.store / "index"))
    with journey.official_broker(Ending.KILLED):
        assert index_files <= set(files_in(station.store / "index"))
    journey.check_with_emberq()


def begin_emberq_store(station: Station) -> None:
    """A directory whose only file is the topic table: the broker serves no other topics."""
    station.bring(None)
    topic = TopicConfig(name=TOPIC, read_queue_count=QUEUE_COUNT, write_queue_count=QUEUE_COUNT)
    MetadataFiles(station.store).topics.save(TopicTable(topics={TOPIC: topic}))


def test_an_official_broker_refuses_a_store_that_emberq_has_open(station: Station) -> None:
    begin_emberq_store(station)

    with opened(station.store, station.port):
        exit_code = station.start_in_vain()

    assert exit_code != 0


@pytest.mark.slow
def test_a_store_travels_by_the_other_endings(station: Station) -> None:
    station.bring(None)
    journey = Journey(station, [])

    with journey.official_broker(Ending.KILLED):
        pass
    journey.append_with_emberq(Ending.CLOSED)
    with journey.official_broker(Ending.CLOSED):
        pass
    journey.append_with_emberq(Ending.KILLED)
    journey.append_with_emberq(Ending.KILLED)
    with journey.official_broker(Ending.CLOSED):
        pass
    journey.check_with_emberq()


@pytest.mark.slow
def test_an_emberq_store_whose_first_writer_was_killed_is_served(station: Station) -> None:
    begin_emberq_store(station)
    journey = Journey(station, [])

    journey.append_with_emberq(Ending.KILLED)
    with journey.official_broker(Ending.CLOSED):
        pass
    journey.append_with_emberq(Ending.CLOSED)
    with journey.official_broker(Ending.KILLED):
        pass
    journey.check_with_emberq()


@pytest.mark.slow
def test_official_brokers_serve_what_emberq_rebuilt(
    station: Station, official_messages: list[SeenMessage]
) -> None:
    station.bring(station.kept("official"))
    shutil.rmtree(station.store / "consumequeue")
    shutil.rmtree(station.store / "index")
    journey = Journey(station, official_messages)

    journey.check_with_emberq(is_in_place=True)
    with journey.official_broker(Ending.KILLED):
        pass


@pytest.mark.slow
def test_a_store_goes_from_4_9_to_5_5_by_way_of_emberq(
    official_artifacts: None, tmp_path: Path
) -> None:
    older = Station(LINES[0], tmp_path / "older")
    newer = Station(LINES[1], tmp_path / "newer", older.port)
    try:
        older.bring(None)
        journey = Journey(older, [])
        with journey.official_broker(Ending.CLOSED):
            pass
        journey.append_with_emberq(Ending.CLOSED)
        newer.bring(older.store)
        onward = Journey(newer, journey.known)
        with onward.official_broker(Ending.KILLED):
            pass
        onward.check_with_emberq()
    finally:
        older.end()
        newer.end()
