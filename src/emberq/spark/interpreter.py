"""The Python that Spark on this machine starts its processes with.

Spark puts a zip of PySpark first on their path. There are no compiled modules in it, so that each
process compiles PySpark anew before it does anything: most of a second of CPU, and a stream has
such a process for each query (docs/decisions/0025-workers-without-the-zip.md). And they end with
traces of calls when the JVM has hung up: modules of Spark's are run by `quiet_process`.
"""

import atexit
import functools
import os
import shlex
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

_SCRIPT = """#!/bin/sh
# This Python has the same PySpark as the zips of Spark, installed and compiled: leave them out.
set -f
IFS=:
rest=
for path in $PYTHONPATH; do
    case $path in
    {zips}) ;;
    *) rest=${{rest:+$rest:}}$path ;;
    esac
done
unset IFS
export PYTHONPATH="$rest"
# As Spark has it in tasks: threads of numpy's that wait for work use CPU.
export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-1}}"
case "$1 $2" in
"-m pyspark."*)
    shift
    set -- -c {quiet} "$@"
    ;;
esac
exec {python} "$@"
"""
# By its path: this Python may have the package from where others do not look.
_QUIET = "from runpy import run_path; run_path({path!r}, run_name='__main__')"


@functools.cache
def worker_python() -> str:
    """A program that is this Python with the PySpark that is installed, for PYSPARK_PYTHON; this
    Python itself where there is nothing to gain. It is gone when this process ends."""
    zips = _zips()
    if os.name != "posix" or not zips or not Path(__file__).exists():
        return sys.executable
    program = own_folder() / "python"
    patterns = " | ".join(shlex.quote(str(path)) for path in zips)
    quiet = _QUIET.format(path=str(Path(__file__).with_name("quiet_process.py")))
    words = {
        "zips": patterns,
        "python": shlex.quote(sys.executable),
        "quiet": shlex.quote(quiet),
    }
    program.write_text(_SCRIPT.format(**words))
    program.chmod(0o700)
    return str(program) if os.access(program, os.X_OK) else sys.executable


@functools.cache
def own_folder() -> Path:
    """For what Spark's processes on this machine share; gone when this process ends."""
    folder = tempfile.mkdtemp(prefix="emberq-python-")
    atexit.register(_remove, folder, os.getpid())
    return Path(folder)


def _zips() -> list[Path]:
    """Those that belong to the PySpark that is installed here; none where that is a zip itself."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return []
    return sorted(Path(found.origin).parent.glob("python/lib/*.zip"))


def _remove(folder: str, maker: int) -> None:
    if os.getpid() == maker:  # and not a process that was forked
        shutil.rmtree(folder, ignore_errors=True)
