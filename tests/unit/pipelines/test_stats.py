"""What stats refuse; no Spark."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from emberq.errors import ConfigError
from emberq.pipelines.stats import Stats


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "w", "until": "2026-01-01"}, "until is for stats that do not run on"),
        ({"path": "w", "top": 5}, "top needs by=tag"),
        ({"path": "w", "by": "key"}, "by=key is for stats that do not run on"),
        ({"path": "w", "by": "topic"}, "by='topic': expected tag or key"),
        ({"to_topic": "t", "checkpoint": "c", "report": "r.html"}, "report of the windows in path"),
        ({}, "need path or toTopic"),
        ({"path": "w", "to_topic": "t"}, "need path or toTopic"),
        ({"to_topic": "t"}, "need checkpoint"),
        ({"path": "w", "late": "soon"}, "late='soon'"),
        ({"path": "w", "window": "long"}, "window='long'"),
        ({"path": "w", "sink": {"delivery": "idempotent"}}, "name toTopic"),
    ],
)
def test_what_a_run_that_goes_on_cannot_do_is_told_before_spark_starts(
    options: dict[str, Any], message: str
) -> None:
    job = Stats(topics="orders", every="1m", **options)

    with pytest.raises(ConfigError, match=message):
        job.run()
    with pytest.raises(ConfigError, match=message):
        job.plan()


def test_a_report_that_cannot_be_written_is_told_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    with pytest.raises(ConfigError, match=r"report=.*file/report\.html' cannot be written"):
        Stats(topics="orders", report=str(tmp_path / "file" / "report.html")).run()
