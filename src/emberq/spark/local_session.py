"""A session of Spark on this machine whose Python processes start quickly and end quietly."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from emberq.spark.interpreter import own_folder, worker_python
from emberq.spark.java import packaged_java_home
from emberq.spark.secret_settings import secret_keys, secrets_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A path of a Unix socket has 104 bytes on some systems; Spark's names have 42 of them.
_SOCKET_FOLDER_MAX_BYTES = 104 - 1 - len("/") - 42

# Java's Arrow asks of each value whether it may be looked at. Batches of ours are whole, and Spark
# looks at nothing behind their ends; without the questions rows cost the JVM a seventh less.
_WITHOUT_ARROW_CHECKS = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
# Spark puts these before `extraJavaOptions`, which users have in files of their own, and which win.
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"

NOT_INSTALLED = "Spark is not installed: pip install 'emberq[spark]'"
# Words of spark-submit, where PySpark starts it.
_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"

CONF: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",  # times as they are stored
    "spark.ui.showConsoleProgress": "false",  # it overwrites what others print
}


def local_session(
    master: str = "local[*]", conf: Mapping[str, str] | None = None
) -> "SparkSession":
    """Start Spark, or take the session that runs, as it is.

    Args:
        master: `local[*]`, or `local[4]` for four tasks at a time.
        conf: settings of Spark, before those of this function.

    Raises:
        ImportError: Spark is not installed.
    """
    return running_session() or new_session(master, {**CONF, **(conf or {})})


def running_session() -> "SparkSession | None":
    """The one of this thread, or else the one that another thread started."""
    try:
        from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - an extra
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(NOT_INSTALLED) from error
    try:
        session = SparkSession.active()
    except PySparkRuntimeError:
        return None
    context = getattr(session, "_sc", None)  # sessions of Connect have none
    return None if context is not None and context._jsc is None else session


def new_session(master: str, conf: Mapping[str, str]) -> "SparkSession":
    """Start Spark with these settings and, on this machine, with what its processes need."""
    use_own_interpreters(master)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.appName("emberq").master(master)
    settings = process_conf(master, conf)
    _start_java(master, settings)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _start_java(master: str, settings: Mapping[str, str]) -> None:
    """The JVM, unless it runs: started with the session, it would have secrets in its command."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    keys = secret_keys(settings)
    if not keys:
        return
    shown = [(key, value) for key, value in settings.items() if key not in keys]
    conf = SparkConf(loadDefaults=False).setMaster(master).setAll(shown)
    with _secrets_handed_on(settings):
        SparkContext._ensure_initialized(conf=conf)


@contextmanager
def _secrets_handed_on(settings: Mapping[str, str]) -> Iterator[None]:
    before = os.environ.get(_SUBMIT_ARGS)
    with secrets_file(settings, own_folder()) as words:
        os.environ[_SUBMIT_ARGS] = f"{shlex.join(words)} {before or 'pyspark-shell'}"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_SUBMIT_ARGS]
            else:
                os.environ[_SUBMIT_ARGS] = before


def use_own_interpreters(master: str) -> None:
    """Workers run this Python; Java is the environment's own where set-up provided one, else the
    machine's or the one that PyPI carries."""
    python = worker_python() if is_here(master) else sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    own = Path(sys.prefix, "java-home")
    java_home = own if own.exists() else packaged_java_home()
    if java_home is not None:
        os.environ["JAVA_HOME"] = str(java_home)


def process_conf(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """The given settings, and before them how the JVM and its Python processes work together if
    all of them are on this machine.

    Over TCP each task waits 40 ms for nothing: one side sends a little and then a little more, the
    other does not acknowledge what it cannot answer yet. Unix sockets do not wait, and copy less.
    """
    if os.name != "posix" or not is_here(master):
        return dict(given)
    java = f"{_WITHOUT_ARROW_CHECKS} {given.get(_JAVA_OPTIONS, '')}".rstrip()
    conf = {**given, _JAVA_OPTIONS: java}
    folder = own_folder()
    if len(os.fsencode(folder)) > _SOCKET_FOLDER_MAX_BYTES:
        return conf
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder),
        **conf,
    }


def is_here(master: str) -> bool:
    """Whether all processes are on this machine, and have its files and its environment."""
    return master == "local" or master.startswith("local[")
