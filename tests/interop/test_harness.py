"""The harness itself: nothing is left behind, a damaged cache is repaired."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.harness import artifacts
from tests.interop.harness.artifacts import Line
from tests.interop.harness.processes import TestProcess, running_processes
from tests.interop.harness.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]

# Stands for Maven: copies one sound jar and counts its calls.
FAKE_MAVEN = """#!{python}
import pathlib, sys, zipfile
target = next(a.split("=", 1)[1] for a in sys.argv if a.startswith("-DoutputDirectory="))
pathlib.Path(target).mkdir()
with zipfile.ZipFile(pathlib.Path(target) / "rocketmq-client.jar", "w") as jar:
    jar.writestr("a.class", "x" * 1000)
with open({calls!r}, "a") as calls:
    calls.write("call\\n")
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A killed child of a dead parent may wait as a zombie for whoever adopted it.
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def test_a_process_that_ends_early_shows_its_output_in_the_failure() -> None:
    command = [sys.executable, "-c", "print('the reason'); raise SystemExit(3)"]

    with (
        TestProcess("early", command) as process,
        pytest.raises(AssertionError, match="the reason"),
    ):
        process.wait_for_line("ready", timeout_s=20)


def test_a_failing_block_leaves_no_process_behind() -> None:
    process = TestProcess("sleeper", SLEEPER)

    with pytest.raises(AssertionError, match="sleeper: no 'down'"), process:
        process.wait_for_line("down", timeout_s=0.5)

    assert not is_alive(process.pid)
    assert process not in running_processes()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent")
def test_a_killed_test_run_takes_its_processes_with_it() -> None:
    script = (
        "from tests.interop.harness.processes import TestProcess\n"
        f"process = TestProcess('sleeper', {SLEEPER!r})\n"
        "process.wait_for_line('up', timeout_s=20)\n"
        "print(process.pid, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        run.send_signal(signal.SIGKILL)

    eventually(lambda: is_alive(pid), lambda alive: not alive, timeout_s=10)


def test_a_damaged_cache_entry_is_resolved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    maven = tmp_path / "mvn"
    maven.write_text(FAKE_MAVEN.format(python=sys.executable, calls=str(calls)))
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("EMBERQ_INTEROP_CACHE", str(tmp_path / "cache"))
    line = Line("fake", "1.0", "1.0")

    first = artifacts.server_jars(line)
    again = artifacts.server_jars(line)
    assert first == again
    assert calls.read_text().count("call") == 1

    (first / "rocketmq-client.jar").write_bytes(b"cut short")
    artifacts.server_jars(line)
    assert calls.read_text().count("call") == 2
    assert artifacts.is_resolved(line)
    assert sorted(entry.name for entry in (tmp_path / "cache").iterdir()) == [
        "servers-1.0",
        "servers-1.0.lock",
    ]
