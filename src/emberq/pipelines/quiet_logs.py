"""Jobs say how far they are; what Spark logs while it starts would stand between.

Spark warns of things that no user of a job can change (native libraries, the name of the machine),
before a session's own level counts. So the JVM starts with a configuration of its logs. Failures
are still told. Who has a configuration of his own keeps it.
"""

import logging
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from emberq.spark.interpreter import own_folder

FILE = "log4j2.properties"
_CONTENT = """\
status = fatal
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
# Spark takes its level for everybody's when Python starts it.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
# Warnings about what EmberQ does on purpose, or nobody can change.
logger.sources.name = org.apache.spark.sql.execution.datasources.DataSourceManager
logger.sources.level = error
logger.library.name = org.apache.hadoop.util.NativeCodeLoader
logger.library.level = error
logger.streams.name = org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream
logger.streams.level = error
logger.host.name = org.apache.spark.util.Utils
logger.host.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


# Of PySpark's Python side: it writes a failed query as JSON of a hundred lines, and raises it.
_QUERY_FAILURES = "SQLQueryContextLogger"


def quiet_query_failures() -> None:
    """Who called is told by the exception."""
    logging.getLogger(_QUERY_FAILURES).disabled = True


def quiet_conf(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings by which Spark's JVM logs failures only, from its start if that can be had."""
    return {"spark.log.level": "ERROR"} if _has_own(environ) else _conf("error")


def warning_conf(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The same for a cluster's driver, which warns where nothing goes on: no worker is there."""
    return {} if _has_own(environ) else _conf("warn")


def _conf(level: str) -> dict[str, str]:
    file = own_folder() / FILE
    if any(letter.isspace() for letter in str(file)):  # between options of Java
        return {"spark.log.level": level.upper()}
    file.write_text(_CONTENT.replace("{level}", level), encoding="utf-8")
    return {"spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={file.as_uri()}"}


def _has_own(environ: Mapping[str, str]) -> bool:
    if environ.get("SPARK_CONF_DIR"):
        return True
    found = find_spec("pyspark")
    home = environ.get("SPARK_HOME") or (Path(found.origin or "").parent if found else "")
    return bool(home) and Path(home, "conf", FILE).exists()
