"""What spark-submit runs: the job of a file, in the session that the cluster gives."""

import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """The file of the job, then KEY=VALUE that win over it."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only on a cluster

    from emberq.pipelines.catalogue import read_job_file  # noqa: PLC0415

    file, *words = arguments
    overrides = dict(word.split("=", 1) for word in words)
    session = SparkSession.builder.appName(f"emberq {Path(file).stem}").getOrCreate()
    try:
        report = read_job_file(Path(file), overrides).run(session, say=_say)
        for name, value in report.facts.items():
            _say(f"{name}: {value}")
        return 0 if report.is_good else 1
    finally:
        session.stop()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
