"""Whose a folder of rows is; folders of this machine, no Spark."""

from pathlib import Path

import pytest

from emberq.errors import ConfigError
from emberq.pipelines.result_folders import OWNER_FILE, SPARK_LOG, check_of_batches, claim

ROWS = "part-00000-1f.snappy.parquet"


def put(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v1")
    return folder


def test_a_folder_is_that_of_one_checkpoint_for_good(tmp_path: Path) -> None:
    windows, first, second = (str(tmp_path / name) for name in ("windows", "first", "second"))

    claim(windows, first, None)
    claim(windows, first, None)

    with pytest.raises(ConfigError, match=r"belongs to another run or checkpoint"):
        claim(windows, second, None)
    assert (tmp_path / "windows" / OWNER_FILE).read_text() == (
        tmp_path / "first" / "emberq-writer"
    ).read_text()


def test_a_checkpoint_that_begins_anew_in_its_folder_is_refused(tmp_path: Path) -> None:
    claim(str(tmp_path), str(tmp_path / "_checkpoint"), None)
    (tmp_path / "_checkpoint" / "emberq-writer").unlink()

    with pytest.raises(ConfigError, match="windows of this one would be lost"):
        claim(str(tmp_path), str(tmp_path / "_checkpoint"), None)


def test_a_folder_from_before_owners_were_noted_goes_on_with_its_checkpoint(
    tmp_path: Path,
) -> None:
    windows = put(tmp_path / "windows", ROWS, f"{SPARK_LOG}/9.compact", f"{SPARK_LOG}/10")
    own = put(tmp_path / "own", "offsets/10", "offsets/11", "commits/10")

    claim(str(windows), str(own), None)

    assert (windows / OWNER_FILE).exists()


@pytest.mark.parametrize(
    "written", [(ROWS,), (ROWS, f"{SPARK_LOG}/0"), (ROWS, f"{SPARK_LOG}/9.compact")]
)
@pytest.mark.parametrize("planned", [(), ("metadata",)])
def test_a_folder_with_rows_of_nobody_is_not_that_of_a_new_checkpoint(
    tmp_path: Path, written: tuple[str, ...], planned: tuple[str, ...]
) -> None:
    windows = put(tmp_path / "windows", *written)
    put(tmp_path / "new", *planned)

    with pytest.raises(ConfigError, match="name the checkpoint that wrote it, or another folder"):
        claim(str(windows), str(tmp_path / "new"), None)
    assert not (windows / OWNER_FILE).exists()


def test_journeys_of_batches_do_not_go_where_a_single_run_wrote(tmp_path: Path) -> None:
    batches = put(tmp_path / "batches", f"batch=0/{ROWS}", f"batch=1-of-me/{ROWS}")
    single = put(tmp_path / "single", ROWS, "_SUCCESS")

    check_of_batches(None, str(batches))
    check_of_batches(None, str(tmp_path / "new"))

    with pytest.raises(ConfigError, match="written to by a run without every"):
        check_of_batches(None, str(single))
