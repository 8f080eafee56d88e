"""How many half messages of each topic wait."""

from pathlib import Path

import pytest

from emberq.broker.metadata_files import MetadataFiles
from emberq.broker.transactions import counts as counts_module
from emberq.broker.transactions.counts import TransactionCounts
from tests.support.stores import START_MS, Clock


def test_counts_survive_in_their_file(tmp_path: Path) -> None:
    clock, file = Clock(), MetadataFiles(tmp_path).transaction_counts
    counts = TransactionCounts(clock)
    counts.add("Orders", 1)
    counts.add("Orders", 1)
    counts.add("Orders", -1)

    file.save(counts.table())

    assert TransactionCounts(clock, file.load()).count("Orders") == 1
    assert b'"transactionCount"' in file.path.read_bytes()
    assert file.load().topics["Orders"].changed_at_ms == START_MS


def test_the_official_form_is_read(tmp_path: Path) -> None:
    file = MetadataFiles(tmp_path).transaction_counts
    file.path.parent.mkdir(parents=True)
    file.path.write_text(
        '{\n\t"dataVersion":{\n\t\t"counter":2,\n\t\t"stateVersion":0,\n\t\t"timestamp":1\n\t},\n'
        '\t"transactionCount":{\n\t\t"T1":{\n\t\t\t"count":5,\n\t\t\t"timeStamp":7\n\t\t}\n\t}\n}'
    )

    assert TransactionCounts(Clock(), file.load()).count("T1") == 5


def test_only_so_many_topics_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts_module, "TOPICS_MAX", 1)
    counts = TransactionCounts(Clock())

    counts.add("A", 1)
    counts.add("B", 1)
    counts.add("A", 1)

    assert (counts.count("A"), counts.count("B")) == (2, 0)


def test_changes_are_told() -> None:
    told: list[int] = []
    counts = TransactionCounts(Clock())
    counts.on_change(lambda: told.append(1))

    counts.add("A", 1)

    assert told == [1]


def test_a_topic_that_is_gone_is_forgotten() -> None:
    counts = TransactionCounts(Clock())
    counts.add("A", 1)

    counts.forget("A")
    counts.forget("never seen")

    assert counts.table().topics == {}
