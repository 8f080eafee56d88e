"""A project for Spark's declarative pipelines, with a streaming table per topic."""

import itertools
import keyword
import re
from pathlib import Path

import msgspec

from emberq.client.core.outgoing import check_topic
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
from pyspark.sql import functions as f

spark = SparkSession.active()


@dp.table(name={table})
def messages() -> DataFrame:
    stored = (
        spark.readStream.format("rocketmq")
        .option("nameServer", {name_server})
        .option("subscribe", {subscribed})
        .option("startingOffsets", "earliest")
        .load()
    )
    # Null where a body is not UTF-8; leave this out for bodies as they are.
    text = f.try_validate_utf8(f.col("body").cast("string"))
    return stored.withColumns({{"bodySize": f.octet_length("body"), "body": text}})
'''

_SUMMARY = """-- Messages and bytes of {topic} per hour and tag.
CREATE MATERIALIZED VIEW `{summary}` AS
SELECT date_trunc('hour', storeTimestamp) AS hour, tags, count(*) AS messages,
       sum(bodySize) AS bytes
FROM `{table}`
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
        MessageRefused: a topic's name is none.
    """
    spec = folder / SPEC_FILE
    if spec.exists():
        raise PipelineError(f"{spec} exists; choose another folder")
    for topic in topics:
        check_topic(topic)
    name, storage = folder.absolute().name, (folder / "storage").absolute().as_uri()
    files = {spec: _SPEC.format(name=_quoted(name), storage=_quoted(storage))}
    place = folder / "transformations"
    for topic, (table, summary) in table_names(topics).items():
        files[place / f"{table}.py"] = _TOPIC.format(
            topic=topic,
            table=_quoted(table),
            subscribed=_quoted(topic),
            name_server=_quoted(name_server),
        )
        files[place / f"{summary}.sql"] = _SUMMARY.format(topic=topic, table=table, summary=summary)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)


def table_names(topics: list[str]) -> dict[str, tuple[str, str]]:
    """Names of table and summary of each topic: words in SQL and Python alike, each given once."""
    found: dict[str, tuple[str, str]] = {}
    given: set[str] = set()
    for topic in dict.fromkeys(topics):
        word = re.sub(r"\W", "_", topic, flags=re.ASCII).strip("_").lower()
        if not word.isidentifier() or keyword.iskeyword(word):
            word = f"topic_{word}".rstrip("_")
        numbered = (f"{word}_{number}" for number in itertools.count(2))
        for table in itertools.chain([word], numbered):
            names = table, f"{table}_per_hour"
            if given.isdisjoint(names):
                break
        found[topic] = names
        given |= {*names}
    return found


def _quoted(text: str) -> str:
    """As Python and YAML take it."""
    return msgspec.json.encode(text).decode()
