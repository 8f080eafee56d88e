"""Mistakes in a transformation are told before Spark is started."""

from pathlib import Path
from typing import Any

import pytest

from emberq.errors import ConfigError
from emberq.pipelines.transform import Transform

SELECT = {"sql": "SELECT body FROM orders"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "transform needs sql or function, one of them"),
        ({**SELECT, "function": "shop:paid"}, "transform needs sql or function, one of them"),
        ({**SELECT, "topics": " , "}, "topics names no topic"),
        ({**SELECT, "every": "soon"}, "every='soon': expected a duration"),
        ({**SELECT, "sink": {"delivery": "once"}}, "delivery='once': expected one of"),
        ({**SELECT, "sink": {"deliverey": "idempotent"}}, "did you mean delivery"),
    ],
)
def test_a_plan_refuses_what_a_run_refuses(options: dict[str, Any], message: str) -> None:
    job = Transform(**{"topics": "orders", "checkpoint": "state", "to_topic": "out", **options})

    for step in (job.plan, job.run):
        with pytest.raises(ConfigError, match=message):
            step()


def test_a_query_that_cannot_be_read_from_its_file_is_told_in_a_sentence(tmp_path: Path) -> None:
    missing, binary = tmp_path / "none.sql", tmp_path / "binary.sql"
    binary.write_bytes(b"\xff\xfe")

    for path, message in ((missing, "No such file or directory"), (binary, "is no UTF-8 text")):
        job = Transform(topics="orders", checkpoint="state", sql=str(path))
        for step in (job.plan, job.run):
            with pytest.raises(ConfigError, match=rf"{path.name}\W.*{message}"):
                step()
