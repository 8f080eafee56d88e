"""The Python that Spark on this machine starts its processes with.

Spark puts a zip of PySpark first on their path. There are no compiled modules in it, so that each
process compiles PySpark anew before it does anything: most of a second of CPU, and a stream has
such a process for each query (docs/decisions/0025-workers-without-the-zip.md).
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
exec {python} "$@"
"""


@functools.cache
def worker_python() -> str:
    """A program that is this Python with the PySpark that is installed, for PYSPARK_PYTHON; this
    Python itself where there is nothing to gain. It is gone when this process ends."""
    zips = _zips()
    if os.name != "posix" or not zips:
        return sys.executable
    folder = tempfile.mkdtemp(prefix="emberq-python-")
    atexit.register(_remove, folder, os.getpid())
    program = Path(folder, "python")
    patterns = " | ".join(shlex.quote(str(path)) for path in zips)
    program.write_text(_SCRIPT.format(zips=patterns, python=shlex.quote(sys.executable)))
    program.chmod(0o700)
    return str(program) if os.access(program, os.X_OK) else sys.executable


def _zips() -> list[Path]:
    """Those that belong to the PySpark that is installed here; none where that is a zip itself."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return []
    return sorted(Path(found.origin).parent.glob("python/lib/*.zip"))


def _remove(folder: str, maker: int) -> None:
    if os.getpid() == maker:  # and not a process that was forked
        shutil.rmtree(folder, ignore_errors=True)
