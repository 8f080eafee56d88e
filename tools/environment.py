"""The virtual environment `.venv` and the two things done to it: making it, running its pip."""

import importlib.util
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / os.environ.get("EMBERQ_VENV", ".venv")  # another one: for other versions of Spark
VENV_PYTHON = VENV / "bin" / "python"
LOCKS = ROOT / "requirements"
COMPILED_SOURCES = sorted((ROOT / "src").glob("emberq/**/*.pyx"))
STILL_WORKING_EVERY_S = 15

# Run by the Python of a `.venv` that somebody else made, or that a Ctrl-C left half made.
IS_USABLE = "import pip, sys; sys.exit(sys.version_info < (3, 11))"

HAS_KERNEL = "import sys, importlib.util as i; sys.exit(not i.find_spec('emberq.kernel.compiled'))"


class SetupFailed(Exception):
    """Set-up cannot go on; the message says what to do."""


def make_venv() -> None:
    """Make `.venv` with the running Python; keep one that is there and works."""
    if is_usable():
        return
    if importlib.util.find_spec("ensurepip") is None:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        raise SetupFailed(
            f"{sys.executable} has no ensurepip, so it cannot make a virtual environment: "
            f"install it (Debian and Ubuntu: apt install {package}) or name another with PYTHON=…"
        )
    try:
        venv.create(VENV, with_pip=True, clear=True, symlinks=True, prompt="emberq")
    except (OSError, subprocess.CalledProcessError) as error:
        raise SetupFailed(f"cannot make {VENV}: {error}") from error


def is_usable() -> bool:
    if not VENV_PYTHON.exists():  # also false for a link to a Python that was removed
        return False
    return subprocess.run([VENV_PYTHON, "-c", IS_USABLE], check=False).returncode == 0


def install_lock(lock: Path) -> None:
    # PySpark is a source archive: it is built with the pinned build layer, not with whatever
    # setuptools the index holds today.
    isolation = ["--no-build-isolation"] if lock.stem.startswith("spark") else []
    pip("install", "--require-hashes", *isolation, "-r", str(lock))


def install_project() -> None:
    for source in COMPILED_SOURCES:
        for outdated in source.parent.glob(f"{source.stem}.*"):
            if outdated.suffix in (".c", ".so", ".pyd"):
                outdated.unlink()
    pip("install", "--no-build-isolation", "--no-deps", "--editable", str(ROOT))
    if subprocess.run([VENV_PYTHON, "-c", HAS_KERNEL], check=False).returncode:
        say("      the kernel could not be compiled (is there a C compiler?): plain Python runs")


def pip(*arguments: str) -> None:
    """Run the environment's pip; it is silent, so say now and then that it still works."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    started = time.monotonic()
    with subprocess.Popen([VENV_PYTHON, "-m", "pip", *arguments, *quiet], cwd=ROOT) as process:
        while process.poll() is None:
            try:
                process.wait(STILL_WORKING_EVERY_S)
            except subprocess.TimeoutExpired:
                say(f"      … still working ({time.monotonic() - started:.0f} s)")
    if process.returncode:
        raise SetupFailed(f"pip ended with {process.returncode}; its reason stands above")


def say(line: str) -> None:
    print(line, flush=True)


def is_on_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")
