"""A project for Spark's declarative pipelines, with a streaming table per topic."""

import re
from pathlib import Path

from emberq.errors import PipelineError
from emberq.pipelines.connected import require_connect
from emberq.pipelines.submission import spark_program

SPEC_FILE = "spark-pipeline.yml"

_SPEC = """name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.session.timeZone: UTC
"""

_TOPIC = '''"""The topic {topic}: every run of the pipeline reads what came since the last one."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table(name="{table}")
def {table}() -> DataFrame:
    return (
        spark.readStream.format("rocketmq")
        .option("nameServer", "{name_server}")
        .option("subscribe", "{topic}")
        .option("startingOffsets", "earliest")
        .option("bodyAs", "string")
        .load()
    )
'''

_SUMMARY = """-- Messages and bytes of {topic} per hour and tag.
CREATE MATERIALIZED VIEW {table}_per_hour AS
SELECT date_trunc('hour', storeTimestamp) AS hour, tags, count(*) AS messages,
       sum(length(body)) AS bytes
FROM {table}
GROUP BY 1, 2;
"""


# The catalogue in memory forgets its tables between two runs, and the second one fails.
_CATALOGUE = {"spark.sql.catalogImplementation": "hive"}


def run_command(
    folder: Path, remote: str, conf: dict[str, str], *, is_dry: bool, is_full: bool
) -> list[str]:
    """The words of `spark-pipelines`, for the project's folder as the working directory.

    Raises:
        ImportError: Spark is not installed.
        PipelineError: what its pipelines need is not, or there is no project.
    """
    require_connect()
    if not (folder / SPEC_FILE).exists():
        raise PipelineError(f"{folder} has no {SPEC_FILE}; emberq spark pipelines init writes one")
    words = [spark_program("spark-pipelines"), "dry-run" if is_dry else "run"]
    words += ["--spec", SPEC_FILE, "--remote", remote]
    for key, value in {**_CATALOGUE, **conf}.items():
        words += ["--conf", f"{key}={value}"]
    return [*words, "--full-refresh-all"] if is_full and not is_dry else words


def write_project(folder: Path, topics: list[str], name_server: str) -> list[Path]:
    """Write the spec, and for each topic a table in Python and a view in SQL.

    Raises:
        PipelineError: there is a project already.
    """
    spec = folder / SPEC_FILE
    if spec.exists():
        raise PipelineError(f"{spec} exists; choose another folder")
    storage = (folder / "storage").absolute()
    files = {spec: _SPEC.format(name=folder.absolute().name, storage=storage.as_uri())}
    for topic in topics:
        table = re.sub(r"\W", "_", topic).strip("_").lower() or "topic"
        facts = {"topic": topic, "table": table, "name_server": name_server}
        files[folder / "transformations" / f"{table}.py"] = _TOPIC.format(**facts)
        files[folder / "transformations" / f"{table}_per_hour.sql"] = _SUMMARY.format(**facts)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)
