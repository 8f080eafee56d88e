"""The store commands as processes: on a locked directory, in pipes, with memory that stays flat."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.store_builder import StoreBuilder

pytestmark = pytest.mark.integration

TIMEOUT_S = 60

# What a broker does with its lock file, and nothing else of a broker.
HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    builder = StoreBuilder(tmp_path / "store", segment_size=1 << 20)
    for number in range(2_000):
        builder.add("orders", number % 4, b"x" * 500, KEYS=f"k{number}", is_indexed=False)
    return builder.write(is_clean=False)


def run_tool(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "emberq", "store", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture
def holder(root: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", HOLD_LOCK, str(root / "lock")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who holds a lock")
def test_a_running_broker_is_recognised_and_keeps_its_lock(
    root: Path, holder: "subprocess.Popen[str]"
) -> None:
    for _ in range(2):  # the first look must not have taken the lock away
        report = json.loads(run_tool("inspect", "--json", root).stdout)

        assert report["state"] == "running"
        assert report["lockProcessId"] == holder.pid


def test_nothing_in_the_directory_changes(root: Path) -> None:
    def state() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in root.rglob("*")}

    before = state()
    for command in ("inspect", "dump", "verify"):
        assert run_tool(command, root).returncode == 0

    assert state() == before


def test_a_reader_that_leaves_early_ends_the_dump_quietly(root: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "emberq", "store", "dump", str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["topic"] == "orders"
        process.stdout.close()
        assert process.stderr.read() == ""
        process.wait(TIMEOUT_S)


def test_progress_and_colours_stay_out_of_files(root: Path) -> None:
    result = run_tool("verify", root)

    assert result.stderr == ""
    assert "\x1b" not in result.stdout


MEASURED = """
import re, sys
from pathlib import Path
from emberq.store.selection import MessageSelector, Selection
from emberq.store.verification import Verifier
from emberq.store.view.directory import StoreView

view = StoreView(Path(sys.argv[1]))
Verifier(view).run()
for is_from_log in (False, True):
    for _ in MessageSelector(view, Selection(is_from_log=is_from_log), on_damage=print): pass
# Not `ru_maxrss`: that begins with the memory of the process which started this one.
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def peak_kib(root: Path) -> int:
    command = [sys.executable, "-c", MEASURED, str(root)]
    return int(subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_S).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_number_of_messages(tmp_path: Path) -> None:
    peaks = []
    for count in (1_000, 20_000):
        builder = StoreBuilder(tmp_path / str(count), segment_size=8 << 20, entries_per_file=1_000)
        for _ in range(count):
            builder.add(body=b"x" * 1024, is_indexed=False)
        peaks.append(peak_kib(builder.write()))

    assert peaks[1] - peaks[0] < 8 * 1024  # the logs differ by 21 MiB
