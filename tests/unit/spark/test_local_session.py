"""What a session on this machine is told about its Python processes."""

import tempfile
from pathlib import Path

import pytest

from emberq.spark import interpreter
from emberq.spark.local_session import is_here, process_conf


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    interpreter.own_folder.cache_clear()


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,8]"])
def test_processes_of_this_machine_talk_over_sockets_in_a_private_folder(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")  # whatever path tests are given

    conf = process_conf(master, {"spark.ui.enabled": "false"})

    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.python.unix.domain.socket.enabled"] == "true"
    assert Path(conf["spark.python.unix.domain.socket.dir"]).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://h:7077", "yarn", "sc://h"])
def test_processes_elsewhere_are_left_alone(master: str) -> None:
    assert not is_here(master)
    assert process_conf(master, {"key": "value"}) == {"key": "value"}


def test_a_folder_whose_path_is_too_long_for_sockets_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("long" * 20)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))

    assert not any("socket" in key for key in process_conf("local[*]", {}))


def test_options_of_java_stand_behind_ours_and_win() -> None:
    key = "spark.driver.defaultJavaOptions"
    conf = process_conf("local[*]", {key: "-Xss4m", "spark.driver.extraJavaOptions": "-Xss8m"})

    assert conf[key].startswith("-Darrow.")
    assert conf[key].endswith(" -Xss4m")
    assert conf["spark.driver.extraJavaOptions"] == "-Xss8m"
