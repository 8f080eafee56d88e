"""What a new user does first: the first message."""

import subprocess
import sys
from pathlib import Path

import pytest

from emberq.testing.local_cluster import run_cluster

pytestmark = pytest.mark.integration


def python_module(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_first_message_that_standalone_speaks_of_is_sent_and_read_back(tmp_path: Path) -> None:
    with run_cluster(tmp_path) as cluster:
        done = python_module("emberq.testing.first_message", cluster.name_server)
        again = python_module("emberq.testing.first_message", cluster.name_server)

    assert done.stderr == ""
    assert "sent: topic FirstTopic, queue 0, offset 0" in done.stdout
    assert "read back: 'hello at " in done.stdout
    assert "offset 1" in again.stdout


def test_a_wrong_address_is_one_line() -> None:
    nowhere = python_module("emberq.testing.first_message", "nowhere")
    without = python_module("emberq.testing.first_message")

    assert nowhere.returncode == 1
    assert nowhere.stderr == "first_message: 'nowhere' is no address: expected host:port\n"
    assert without.returncode == 2
