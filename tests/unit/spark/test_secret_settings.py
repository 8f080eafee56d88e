"""Secrets among settings go to Spark in a file of their own."""

import stat
from pathlib import Path

import pytest

from emberq.spark.secret_settings import secret_keys, secrets_file

KEY = "spark.hadoop.fs.s3a.secret.key"


@pytest.mark.parametrize(
    ("conf", "secrets"),
    [
        ({KEY: "x", "spark.hadoop.fs.s3a.access.key": "y", "spark.app.name": "lake"}, 2),
        ({"spark.executor.extraJavaOptions": "-DtrustStorePassword=x"}, 1),
        ({"spark.redaction.regex": "(?i)lake", KEY: "x", "spark.app.name": "Lake"}, 2),
        ({"spark.redaction.regex": r"\p{Lower}key", "spark.app.name": "lake"}, 2),  # nobody knows
        ({"spark.app.name": "lake"}, 0),
    ],
)
def test_secrets_are_told_as_spark_tells_them(conf: dict[str, str], secrets: int) -> None:
    assert len(secret_keys(conf)) == secrets


def test_the_file_is_for_its_owner_and_gone_once_spark_has_begun(tmp_path: Path) -> None:
    conf = {KEY: "a=b\\ c\n€😀", "spark.app.name": "lake"}

    with secrets_file(conf, tmp_path) as words:
        (file,) = tmp_path.iterdir()
        assert words == ["--properties-file", str(file), "--load-spark-defaults"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        escaped = r"a\u003db\u005c\u0020c\u000a\u20ac\ud83d\ude00"
        assert file.read_text() == f"{KEY}={escaped}\n"

    assert list(tmp_path.iterdir()) == []


def test_without_secrets_there_is_no_file(tmp_path: Path) -> None:
    with secrets_file({"spark.app.name": "lake"}, tmp_path) as words:
        assert words == []
        assert list(tmp_path.iterdir()) == []
