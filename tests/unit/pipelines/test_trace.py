"""What a trace that runs on refuses; no Spark."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from emberq.errors import ConfigError
from emberq.pipelines.trace import Trace


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs path"),
        ({"path": "p", "message": "order-1"}, "message and until"),
        ({"path": "p", "until": "2026-01-01"}, "message and until"),
        ({"path": "p", "late": "soon"}, "late='soon'"),
        ({"path": "p", "window": "long"}, "window='long'"),
    ],
)
def test_what_a_trace_that_runs_on_cannot_do_is_told_before_spark_starts(
    options: dict[str, Any], message: str
) -> None:
    job = Trace(every="1m", **options)

    with pytest.raises(ConfigError, match=message):
        job.run()
    with pytest.raises(ConfigError, match=message):
        job.plan()


def test_a_report_that_cannot_be_written_is_told_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"report=.* cannot be written: Is a directory"):
        Trace(report=str(tmp_path)).run()
