"""Tables of the broker on disk."""

from pathlib import Path

import pytest

from emberq.broker.metadata_files import (
    BloomFilterBits,
    FilterSubscription,
    FilterTable,
    MetadataFiles,
    TopicFilters,
)
from emberq.errors import StoreDamaged
from emberq.model.data_version import DataVersion
from emberq.model.topic import TopicConfig
from emberq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from emberq.protocol.bodies.topics import TopicTable
from emberq.protocol.fastjson import write_pretty_json

TOPICS = TopicTable(
    data_version=DataVersion(counter=4, timestamp_ms=1_706_000_000_000),
    topics={"orders": TopicConfig(name="orders", read_queue_count=8, write_queue_count=8)},
)


def test_a_store_without_files_has_empty_tables(tmp_path: Path) -> None:
    files = MetadataFiles(tmp_path)

    assert files.topics.load() == TopicTable()
    assert files.consumer_offsets.load().offsets == {}


def test_every_table_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    files = MetadataFiles(tmp_path)
    offsets = ConsumerOffsetTable(offsets={"orders@billing": {0: 1201, 1: 1188}})
    delays = DelayOffsetTable(offsets={1: 40, 3: 17})
    filters = FilterTable(
        topics={
            "orders": TopicFilters(
                topic="orders",
                groups={
                    "billing": FilterSubscription(
                        group="billing",
                        topic="orders",
                        expression="price > 10",
                        expression_type="SQL92",
                        bloom_filter=BloomFilterBits(bit_count=112, positions=[5, 77]),
                    )
                },
            )
        }
    )

    files.topics.save(TOPICS)
    files.consumer_offsets.save(offsets)
    files.delay_offsets.save(delays)
    files.filters.save(filters)

    assert files.topics.load() == TOPICS
    assert files.consumer_offsets.load() == offsets
    assert files.delay_offsets.load() == delays
    assert files.filters.load() == filters


def test_files_have_the_official_form(tmp_path: Path) -> None:
    files = MetadataFiles(tmp_path)

    files.delay_offsets.save(DelayOffsetTable(offsets={1: 40, 3: 17}))

    text = (tmp_path / "config" / "delayOffset.json").read_text()
    assert text == '{\n\t"offsetTable":{\n\t\t1:40,\n\t\t3:17\n\t}\n}'


def test_the_previous_table_stays_as_backup_and_serves_when_the_file_is_damaged(
    tmp_path: Path,
) -> None:
    files = MetadataFiles(tmp_path)
    files.topics.save(TOPICS)
    files.topics.save(TopicTable())

    files.topics.path.write_bytes(b'{"topicConfigTable":')

    assert files.topics.load() == TOPICS


@pytest.mark.parametrize("content", [b"", b"  \n"])
def test_an_empty_file_counts_as_missing(tmp_path: Path, content: bytes) -> None:
    files = MetadataFiles(tmp_path)
    files.topics.path.parent.mkdir()
    files.topics.path.write_bytes(content)

    assert files.topics.load() == TopicTable()


def test_a_backup_alone_is_enough(tmp_path: Path) -> None:
    files = MetadataFiles(tmp_path)
    files.topics.save(TOPICS)
    files.topics.save(TOPICS)

    files.topics.path.unlink()

    assert files.topics.load() == TOPICS


def test_two_damaged_files_stop_the_start_and_name_both(tmp_path: Path) -> None:
    files = MetadataFiles(tmp_path)
    files.topics.path.parent.mkdir()
    files.topics.path.write_bytes(b"{")
    files.topics.path.with_name("topics.json.bak").write_bytes(b"[")

    with pytest.raises(StoreDamaged, match=r"topics\.json cannot.*topics\.json\.bak cannot"):
        files.topics.load()


def test_remembered_texts_of_topics_make_the_same_file(tmp_path: Path) -> None:
    file = MetadataFiles(tmp_path).topics
    one, two = TopicConfig(name="one"), TopicConfig(name="two", attributes={"a": 'line\n"b"'})
    tables = [
        TopicTable(),
        TopicTable(topics={"one": one, "two": two}),
        TopicTable(topics={"two": two, "one": TopicConfig(name="one", permission=4)}),
        TopicTable(topics={"two": two}, mapping_data_version=DataVersion(counter=1)),
        TopicTable(),
    ]

    assert [file.text(table) for table in tables] == [write_pretty_json(table) for table in tables]
