"""What spark-submit runs: the job of a file, in the session that the cluster gives."""

import os
import signal
import sys
from pathlib import Path

import click

from emberq.cli.failures import sentence
from emberq.cli.spark import echo_report
from emberq.cli.task_bar import TaskBar
from emberq.errors import EmberqError
from emberq.pipelines.catalogue import read_job_file
from emberq.pipelines.interrupts import quiet_interrupts
from emberq.pipelines.job import Job, Report
from emberq.pipelines.quiet_logs import quiet_query_failures
from emberq.pipelines.submission import WATCHED


def main(arguments: list[str]) -> int:
    """The file of the job, then KEY=VALUE that win over it; the exit code, as of a local job."""
    file, *words = arguments
    try:
        job = read_job_file(Path(file), dict(word.split("=", 1) for word in words))
        report = run_in_session(job, f"emberq {Path(file).stem}")
    except (EmberqError, OSError) as error:
        click.echo(f"emberq: {sentence(error)}", err=True)
        return 1
    except KeyboardInterrupt:  # of what is no query, or once more
        click.echo("Aborted!", err=True)
        return 1
    echo_report(report)
    return 0 if report.is_good else 1


def run_in_session(job: Job, name: str) -> Report:
    """Raises EmberqError, OSError."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    quiet_query_failures()
    session = SparkSession.builder.appName(name).getOrCreate()
    try:
        with quiet_interrupts(), TaskBar(is_watched=WATCHED in os.environ) as bar:
            return job.run(session, say=bar)
    finally:
        session.stop()


if __name__ == "__main__":
    # The JVM that starts this ignores Ctrl-C, and so does what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
