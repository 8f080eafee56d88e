"""Where groups stand."""

from pathlib import Path

import pytest

from emberq.broker.metadata_files import MetadataFiles
from emberq.broker.offsets import COMMITS_PER_VERSION, QUEUES_PER_TOPIC_MAX, ConsumerOffsets
from emberq.protocol.bodies.offsets import ConsumerOffsetTable


def now_ms() -> int:
    return 1_700_000_000_000


@pytest.fixture
def offsets() -> ConsumerOffsets:
    return ConsumerOffsets(now_ms)


def test_the_last_commit_counts_also_when_it_goes_back(offsets: ConsumerOffsets) -> None:
    offsets.commit("g", "T", 0, 10)
    offsets.commit("g", "T", 0, 4)

    assert offsets.query("g", "T", 0) == 4
    assert offsets.query("g", "T", 1) == -1
    assert offsets.query("h", "T", 0) == -1


def test_queues_of_a_topic_have_a_limit(offsets: ConsumerOffsets) -> None:
    for queue_id in range(QUEUES_PER_TOPIC_MAX + 1):
        offsets.commit("g", "T", queue_id, 1)
        offsets.note_pull("g", "T", queue_id, 1)
    offsets.commit("g", "T", 0, 2)

    assert len(offsets.of("g", "T")) == QUEUES_PER_TOPIC_MAX
    assert offsets.query("g", "T", 0) == 2


def test_topics_and_groups_know_each_other(offsets: ConsumerOffsets) -> None:
    offsets.commit("g", "T", 0, 1)
    offsets.commit("g", "%RETRY%g", 0, 1)
    offsets.commit("h", "T", 3, 1)

    assert offsets.topics_of("g") == {"T", "%RETRY%g"}
    assert offsets.groups_of("T") == {"g", "h"}
    assert offsets.of("h", "T") == {3: 1}


def test_a_reset_waits_for_the_next_pull(offsets: ConsumerOffsets) -> None:
    offsets.commit("g", "T", 0, 10)

    offsets.assign_reset("g", "T", 0, 3)
    offsets.commit("g", "T", 0, 11)

    assert offsets.has_reset("g", "T", 0)
    assert not offsets.has_reset("g", "T", 1)
    assert offsets.query("g", "T", 0) == 3
    assert offsets.take_reset("g", "T", 1) is None
    assert offsets.take_reset("g", "T", 0) == 3
    assert offsets.take_reset("g", "T", 0) is None
    assert offsets.query("g", "T", 0) == 11


def test_a_reset_to_nowhere_is_none(offsets: ConsumerOffsets) -> None:
    offsets.assign_reset("g", "T", 0, -1)
    offsets.assign_reset("g", "T", -1, 0)

    assert not offsets.has_reset("g", "T", 0)


def test_pulls_are_remembered_beside_commits(offsets: ConsumerOffsets) -> None:
    offsets.commit("g", "T", 0, 5)
    assert offsets.pulled("g", "T", 0) == 5

    offsets.note_pull("g", "T", 0, 9)

    assert offsets.pulled("g", "T", 0) == 9
    assert offsets.query("g", "T", 0) == 5


def test_topics_and_groups_are_removed_as_a_whole(offsets: ConsumerOffsets) -> None:
    offsets.commit("g", "T", 0, 1)
    offsets.commit("h", "T", 0, 1)
    offsets.commit("h", "U", 0, 1)
    offsets.note_pull("h", "U", 0, 1)

    offsets.remove_topic("T")
    assert offsets.groups_of("T") == set()
    assert offsets.topics_of("g") == set()
    offsets.remove_group("h")

    assert offsets.table().offsets == {}
    assert offsets.table().pull_offsets == {}


def test_a_group_can_stand_where_another_stands(offsets: ConsumerOffsets) -> None:
    offsets.commit("g", "T", 0, 1)

    offsets.clone("g", "h", "T")
    offsets.clone("g", "h", "Nothing")
    offsets.commit("g", "T", 0, 2)

    assert offsets.of("h", "T") == {0: 1}


def test_a_restart_finds_all_of_it(offsets: ConsumerOffsets, tmp_path: Path) -> None:
    offsets.commit("g", "T", 0, 10)
    offsets.commit("g", "%RETRY%g", 0, 2)
    offsets.note_pull("g", "T", 0, 12)
    file = MetadataFiles(tmp_path).consumer_offsets
    file.save(offsets.table())

    again = ConsumerOffsets(now_ms, file.load())

    assert again.table() == offsets.table()
    assert again.query("g", "T", 0) == 10
    assert again.pulled("g", "T", 0) == 12


def test_keys_without_a_group_are_left_out(offsets: ConsumerOffsets) -> None:
    offsets.load(ConsumerOffsetTable(offsets={"T": {0: 1}}, pull_offsets={"T": {0: 1}}))

    assert offsets.table().offsets == {}


def test_many_commits_make_a_new_version_and_each_change_is_told(offsets: ConsumerOffsets) -> None:
    heard = []
    offsets.on_change(lambda: heard.append(1))
    before = offsets.version

    for number in range(COMMITS_PER_VERSION - 1):
        offsets.commit("g", "T", 0, number)
    assert offsets.version == before
    offsets.commit("g", "T", 0, -7)
    offsets.commit("g", "T", 0, -7)

    assert offsets.version == before.next(now_ms())
    assert len(heard) == COMMITS_PER_VERSION
