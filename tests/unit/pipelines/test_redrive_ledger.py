"""What was sent back is found again, and nothing else."""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emberq.errors import ConfigError, TableError
from emberq.pipelines import redrive_ledger
from emberq.pipelines.redrive_ledger import PLACE, RedriveLedger, ledger_at
from emberq.spark.archive.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BILLING, SHIPPING = "%DLQ%billing", "%DLQ%shipping"


def letters(topic: str, *offsets: int) -> pa.Table:
    """As a job has them: with columns that a ledger does not keep."""
    rows = [
        {
            "id": f"{topic}:broker-a:0:{offset}",
            "topic": topic,
            "brokerName": "broker-a",
            "queueId": 0,
            "queueOffset": offset,
            "target": "orders",
        }
        for offset in offsets
    ]
    return pa.Table.from_pylist(rows)


def at(folder: Path | str) -> RedriveLedger:
    return RedriveLedger(str(folder), Folder(str(folder)))


def ids(ledger: RedriveLedger, *topics: str) -> list[str]:
    return sorted(ledger.remembered(topics)[0]["id"].to_pylist())


def places(ledger: RedriveLedger, *topics: str) -> list[int]:
    return sorted(ledger.remembered(topics)[1]["queueOffset"].to_pylist())


def session(deploy_mode: str) -> "SparkSession":
    """One of a driver whose file system is its disk."""
    hadoop = SimpleNamespace(hadoopConfiguration=lambda: {"fs.defaultFS": "file:///"})
    found = SimpleNamespace(
        conf={"spark.submit.deployMode": deploy_mode}, sparkContext=SimpleNamespace(_jsc=hadoop)
    )
    return cast("SparkSession", found)


def test_letters_of_all_pieces_are_found_by_their_topics(tmp_path: Path) -> None:
    ledger = at(tmp_path / "state" / "ledger")
    ledger.add(letters(BILLING, 0, 1))
    ledger.add(letters(SHIPPING, 0))
    ledger.add(letters(BILLING, 2))

    again = at(f"file://{tmp_path}/state/ledger/")

    assert ids(again, BILLING) == [f"{BILLING}:broker-a:0:{offset}" for offset in range(3)]
    assert ids(again, SHIPPING) == [f"{SHIPPING}:broker-a:0:0"]
    assert len(ids(again, BILLING, SHIPPING)) == 4
    assert places(again, BILLING, SHIPPING) == []


def test_a_ledger_that_is_not_there_remembers_nothing(tmp_path: Path) -> None:
    ledger = at(tmp_path / "none")

    assert ids(ledger, BILLING) == []
    assert places(ledger, BILLING) == []
    assert not (tmp_path / "none").exists()


def test_a_ledger_that_was_used_remembers_nothing_of_no_topic(tmp_path: Path) -> None:
    ledger = at(tmp_path)
    ledger.add(letters(BILLING, 0))

    assert ids(ledger) == []
    assert places(ledger) == []


def test_ledgers_of_before_ids_remember_places(tmp_path: Path) -> None:
    pq.write_table(letters(BILLING, 4, 5).select(list(PLACE)), tmp_path / "part-00000-x.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-00000-x.parquet.crc").touch()
    ledger = at(tmp_path)
    ledger.add(letters(BILLING, 6))

    assert places(ledger, BILLING) == [4, 5]
    assert ids(ledger, BILLING) == [f"{BILLING}:broker-a:0:6"]
    assert places(ledger, SHIPPING) == []


def test_more_than_can_be_remembered_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive_ledger, "REMEMBERED_MAX", 3)
    ledger = at(tmp_path)
    ledger.add(letters(BILLING, 0, 1, 2))
    assert len(ids(ledger, BILLING)) == 3
    ledger.add(letters(BILLING, 3))

    with pytest.raises(TableError, match="more than 3 letters: begin another one"):
        ids(ledger, BILLING)


def test_a_damaged_file_is_an_error_that_names_the_ledger(tmp_path: Path) -> None:
    (tmp_path / "sent-1.parquet").write_bytes(b"PAR1")

    with pytest.raises(TableError, match=f"the ledger {tmp_path}"):
        ids(at(tmp_path), BILLING)


def test_a_folder_that_takes_nothing_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    ledger = at(tmp_path / "file" / "ledger")
    (tmp_path / "file").touch()

    with pytest.raises(TableError, match="ledger"):
        ledger.check_writable()


def test_a_look_whether_a_folder_takes_something_leaves_nothing(tmp_path: Path) -> None:
    at(tmp_path / "ledger").check_writable()

    assert list((tmp_path / "ledger").iterdir()) == []


def test_a_driver_that_runs_anywhere_needs_an_address_for_its_ledger(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="would end with the machine of the driver"):
        ledger_at("state/billing", session("cluster"))

    for address, mode in ((f"file://{tmp_path}", "cluster"), (str(tmp_path), "client")):
        ledger = ledger_at(address, session(mode))
        assert ids(ledger, BILLING) == []
