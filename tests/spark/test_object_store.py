"""Tables in an object store: written by tasks, gone on with, compacted, verified and replayed."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.spark.cluster import Topics
from tests.spark.object_store import running_store
from tests.spark.session import environment

DEADLINE_S = 240


def test_archives_in_an_object_store_are_whole(topics: Topics, tmp_path: Path) -> None:
    names = [topics.make(f"-{kind}") for kind in ("parquet", "delta", "iceberg")]
    for name in names:
        topics.producer.create_topic(f"{name}-again", queues=2)
        topics.send(name, [b"body %d" % number for number in range(200)])
    journey = (sys.executable, "-m", "tests.spark.object_store_journey")

    with running_store(tmp_path) as variables:
        subprocess.run(
            [*journey, topics.cluster.name_server, str(tmp_path), *names],
            env={**os.environ, **environment(), **variables},
            timeout=DEADLINE_S,
            check=True,
        )

    found = json.loads((tmp_path / "found.json").read_text())
    assert found.keys() == {"parquet", "delta", "iceberg"}
    for kind, facts in found.items():
        assert facts == {
            "archived": [200, 30],
            "verdict": "archive and topics agree",
            "rows": 230,
            "replayed": 230,
            "compacted": None if kind == "iceberg" else [2, 1, 2],
        }, kind
