"""A program beside an object store: a topic per table format is archived, gone on with, compacted,
verified and replayed.

Spark's Python workers have the environment that its JVM was started with, so this is a process of
its own.
"""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emberq import Message, Producer
from emberq.pipelines.archive import Archive
from emberq.pipelines.compact import Compact
from emberq.pipelines.job import SparkSettings
from emberq.pipelines.replay import Replay
from emberq.pipelines.session import job_session, start_session
from emberq.pipelines.verify import Verify
from tests.spark.object_store import BUCKET

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPACTED = ("parquet", "delta")


def main(topics: list[str], name_server: str, folder: Path) -> None:
    session = start_session(SparkSettings(master="local[2]"))
    with job_session(SparkSettings(), session), Producer("journey", name_server=name_server) as own:
        found = {
            kind: journey(session, own, kind, topic, name_server, folder / kind)
            for kind, topic in zip(("parquet", "delta", "iceberg"), topics, strict=True)
        }
    session.stop()
    (folder / "found.json").write_text(json.dumps(found))


def journey(
    session: "SparkSession",
    producer: Producer,
    kind: str,
    topic: str,
    name_server: str,
    folder: Path,
) -> dict[str, Any]:
    folder.mkdir()
    catalog = _catalog(folder) if kind == "iceberg" else {}
    table: dict[str, Any] = {
        "path": f"s3://{BUCKET}/{topic}",
        "format": kind,
        "catalog": catalog,
        "name_server": name_server,
    }
    place = {**table, "topics": topic, "checkpoint": str(folder / "checkpoint")}
    archive = Archive(**place, file_size="4k")
    first = archive.run(session)
    producer.send_batch([Message(topic, b"later %d" % number) for number in range(30)])
    second = archive.run(session)
    compacted = compact(kind, table["path"]) if kind in COMPACTED else None
    checked = Verify(**place, bodies=True).run(session)
    replayed = Replay(**table, to_topic=f"{topic}-again").run(session)
    return {
        "archived": [first.facts["messages"], second.facts["messages"]],
        "verdict": checked.facts["verdict"],
        "rows": checked.facts["archived"],
        "replayed": replayed.facts["messages"],
        "compacted": compacted,
    }


def compact(kind: str, path: str) -> list[int]:
    """Files that were joined, that are left, and that were deleted at last: nobody reads them."""
    job = Compact(path=path, format=kind, orphans_after="0s", alone=kind == "parquet")
    first, second = job.run(), job.run()
    assert second.facts["files joined"] == 0
    deleted = [report.facts["files deleted"] for report in (first, second)]
    return [first.facts["files joined"], second.facts["files after"], sum(deleted)]


def _catalog(folder: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"s3://{BUCKET}/warehouse",
        "s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "s3.region": os.environ["AWS_REGION"],
    }


if __name__ == "__main__":
    main(sys.argv[3:], sys.argv[1], Path(sys.argv[2]))
