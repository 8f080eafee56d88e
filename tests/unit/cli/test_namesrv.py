"""What the command says before it serves; what it does then is in tests/integration."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from emberq.config_file import keys_of
from emberq.nameserver.config import NameServerConfig


def namesrv(
    home: Path, *options: str, config: str | None = None
) -> "subprocess.CompletedProcess[str]":
    if config is not None:
        (home / "namesrv.conf").write_text(config)
        options = ("-c", str(home / "namesrv.conf"), *options)
    environment = {**os.environ, "HOME": str(home), "ROCKETMQ_HOME": "/opt/rocketmq"}
    return subprocess.run(
        [sys.executable, "-m", "emberq", "namesrv", *options],
        capture_output=True,
        text=True,
        env=environment,
        timeout=30,
        check=False,
    )


def test_p_prints_every_key_and_exits(tmp_path: Path) -> None:
    done = namesrv(tmp_path, "-p")

    printed = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert done.returncode == 0
    assert list(printed) == sorted(keys_of(NameServerConfig))
    assert printed["listenPort"] == "9876"
    assert printed["rocketmqHome"] == "/opt/rocketmq"
    assert printed["kvConfigPath"] == str(tmp_path / "namesrv" / "kvConfig.json")
    assert done.stderr == ""


def test_p_prints_effective_values(tmp_path: Path) -> None:
    config = "listenPort=1\nclusterTest = TRUE\n"

    done = namesrv(tmp_path, "-p", "--port", "2", config=config)

    assert "listenPort=2\n" in done.stdout
    assert "clusterTest=true\n" in done.stdout
    assert f"configStorePath={tmp_path}/namesrv.conf\n" in done.stdout


def test_an_unknown_key_is_a_warning_with_the_nearest_name(tmp_path: Path) -> None:
    done = namesrv(tmp_path, "-p", config="listenPrt=1\n")

    assert done.returncode == 0
    assert done.stderr == (
        "warning: unknown key listenPrt has no effect; did you mean listenPort?\n"
    )


@pytest.mark.parametrize(
    ("config", "options", "line"),
    [
        ("listenPort=abc", [], "emberq: listenPort='abc': expected a whole number"),
        ("clusterTest=maybe", ["-p"], "emberq: clusterTest='maybe': expected true or false"),
        ("", ["--port", "99999"], "emberq: listenPort=99999: expected 0 to 65535"),
        (
            "listenPrt=1",
            ["--strict-config"],
            "emberq: unknown key listenPrt has no effect; did you mean listenPort?",
        ),
        (
            "tls.server.mod=enforcing",
            ["--strict-config"],
            "emberq: unknown key tls.server.mod has no effect; did you mean tls.server.mode?",
        ),
        (
            "enableControllerInNamesrv=true",
            [],
            "emberq: enableControllerInNamesrv=true: there is no controller in EmberQ yet",
        ),
        (
            "tls.test.mode.enable=false",
            [],
            "emberq: tls.server.certPath is not set; tls.test.mode.enable=false needs it",
        ),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_line(
    tmp_path: Path, config: str, options: list[str], line: str
) -> None:
    done = namesrv(tmp_path, *options, config=config)

    assert (done.returncode, done.stdout, done.stderr) == (1, "", line + "\n")


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    done = namesrv(tmp_path, "-c", str(tmp_path / "gone.conf"))

    assert done.returncode == 1
    assert done.stderr == f"emberq: {tmp_path}/gone.conf: No such file or directory\n"


def test_damaged_stored_values_are_one_line_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "namesrv").mkdir()
    (tmp_path / "namesrv" / "kvConfig.json").write_text("garbage")

    done = namesrv(tmp_path, "--port", "0", "--log-level", "error")

    assert done.returncode == 1
    assert done.stderr.startswith(f"emberq: {tmp_path}/namesrv/kvConfig.json is damaged: ")
    assert done.stderr.count("\n") == 1
