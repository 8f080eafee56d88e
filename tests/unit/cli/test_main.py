import subprocess
import sys
from pathlib import Path

import pytest

from emberq import __version__
from emberq.cli.main import COMMANDS
from emberq.kernel import TWIN


def emberq(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "emberq", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_the_version_is_one_line_and_names_the_kernel() -> None:
    done = emberq("--version")

    assert (done.returncode, done.stdout) == (0, f"emberq {__version__} ({TWIN} kernel)\n")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_every_command(option: str) -> None:
    done = emberq(option)

    assert done.returncode == 0
    for name, (_, text) in COMMANDS.items():
        assert name in done.stdout
        assert text in done.stdout


def test_help_imports_no_server() -> None:
    program = (
        "import sys\nfrom emberq.cli.main import emberq\n"
        "try:\n    emberq(['--help'])\nexcept SystemExit:\n    pass\n"
        "sys.exit('emberq.nameserver.server' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=False)

    assert done.returncode == 0


@pytest.mark.parametrize("arguments", [["nonsense"], ["namesrv", "--nonsense"]])
def test_a_wrong_command_line_is_refused(arguments: list[str]) -> None:
    done = emberq(*arguments)

    assert done.returncode == 2
    assert "nonsense" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_the_system_refuses_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("job: lag\ntopics: orders\nconsumerGroup: lake\n")
    place = tmp_path / "nowhere" / "emberq.zip"

    done = emberq("spark", "submit", str(file), "--package", str(place), "--dry-run")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"emberq: {place}: No such file or directory\n"
