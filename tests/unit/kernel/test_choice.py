"""Which twin of the kernel runs."""

import os
import subprocess
import sys

from emberq import kernel
from tests.support.twins import needs_compiled

SAY = "import emberq.kernel as kernel; print(kernel.TWIN, kernel.chain_entries.__module__)"


def twin_with(value: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SAY],
        env=os.environ | {"EMBERQ_PURE": value},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout.split()


def test_the_pure_twin_runs_where_it_is_asked_for() -> None:
    assert twin_with("1") == [kernel.PURE, "emberq.kernel.index_entries"]


@needs_compiled
def test_the_compiled_twin_runs_where_there_is_one() -> None:
    assert twin_with("0") == [kernel.COMPILED, "emberq.kernel.compiled"]


@needs_compiled
def test_a_twin_of_another_interface_is_not_used() -> None:
    program = (
        "import importlib, logging, emberq.kernel as kernel; logging.disable()\n"
        "import emberq.kernel.compiled as compiled; compiled.INTERFACE = 0\n"
        "importlib.reload(kernel); print(kernel.TWIN)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"EMBERQ_PURE": ""},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    assert done.stdout.split() == [kernel.PURE]
