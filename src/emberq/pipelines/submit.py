"""The job of a file on a cluster: `emberq spark submit` as a call.

`Submit(file="archive.yaml", master="yarn").run()` does what the command does.
"""

import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from emberq.pipelines.catalogue import read_job_file
from emberq.pipelines.connected import run_connected
from emberq.pipelines.interrupts import run_to_its_end
from emberq.pipelines.job import Job, Report, Say
from emberq.pipelines.package_zip import PACKAGE_NAME, build_zip
from emberq.pipelines.session import CONNECT
from emberq.pipelines.submission import (
    CLIENT,
    LOCAL_PLACES,
    PLACES,
    Submission,
    check_places,
    query_file,
    quieter,
    settled_options,
    submit_command,
    submit_environment,
    submit_settings,
    unpack_environment,
)
from emberq.spark.java import require_java
from emberq.spark.local_session import use_own_interpreters
from emberq.spark.secret_settings import secret_keys, secrets_file


class Submitted(Struct, frozen=True, kw_only=True):
    """How a job ended; the report is printed by its driver, unless that is this process."""

    exit_code: int
    report: Report | None = None


class Planned(Struct, frozen=True, kw_only=True):
    """What would be done; the keys of settings whose values are not shown."""

    text: str
    redacted: list[str]


class Submit(Struct, frozen=True, kw_only=True):
    """Run the job of a YAML file on a cluster, EmberQ and what the file names with it."""

    file: Annotated[Path, Meta(description="the YAML file of the job")]
    master: Annotated[str, Meta(description="wins over the file's")] = ""
    deploy_mode: Annotated[str, Meta(description="client, or cluster on yarn and k8s")] = CLIENT
    conf: Annotated[dict[str, str], Meta(description="settings of Spark, win over the file's")] = (
        msgspec.field(default_factory=dict)
    )
    py_files: Annotated[Sequence[Path], Meta(description="modules, packages or zips")] = ()
    env: Annotated[Path | None, Meta(description="a packed Python environment")] = None
    package: Annotated[Path | None, Meta(description="where the package is kept")] = None
    overrides: Annotated[dict[str, str], Meta(description="options that win over the file's")] = (
        msgspec.field(default_factory=dict)
    )

    def run(self, say: Say = lambda _: None, *, is_watched: bool = False) -> Submitted:
        """Ship it, wait for its end, and leave nothing behind. `is_watched`: what the driver prints
        goes to a terminal.

        Raises:
            ConfigError: the file or an option is wrong.
            PipelineError: there is no Java, or no server of Spark Connect.
        """
        job = self._job()
        with tempfile.TemporaryDirectory(prefix="emberq-submit-") as text:
            folder = Path(text)
            submission = self._submission(job, folder / PACKAGE_NAME)
            build_zip(submission.package, submission.modules)
            if _is_connected(submission):
                report = run_connected(job, submission.spark.master, submission.package, say)
                return Submitted(exit_code=0 if report.is_good else 1, report=report)
            return Submitted(exit_code=_run_driver(submission, folder, say, is_watched=is_watched))

    def plan(self) -> Planned:
        """The command for a shell; the package is written only where it was asked for.

        Raises:
            ConfigError: the file or an option is wrong.
        """
        submission = self._submission(self._job(), None)
        if self.package is not None:
            build_zip(submission.package, submission.modules)
        if _is_connected(submission):
            place = f"in this process, on {submission.spark.master}, with {submission.package}"
            return Planned(text=place, redacted=[])
        environ = submit_environment(submission, {})
        given = [f"{name}={shlex.quote(value)}" for name, value in environ.items()]
        return Planned(
            text=" ".join([*given, shlex.join(submit_command(submission))]),
            redacted=sorted(secret_keys(submit_settings(submission))),
        )

    def _job(self) -> Job:
        job = read_job_file(Path(self.file), self.overrides)
        job.spark = job.spark.under(self.master, self.conf)
        use_own_interpreters(job.spark.master)
        return job

    def _submission(self, job: Job, package: Path | None) -> Submission:
        if self.package is not None:
            package = Path(self.package).resolve()
        submission = Submission(
            job_file=Path(self.file).resolve(),
            package=package or Path(PACKAGE_NAME),
            spark=job.spark,
            deploy_mode=self.deploy_mode,
            environment=None if self.env is None else Path(self.env).resolve(),
            modules=tuple(Path(path).resolve() for path in self.py_files),
            query=query_file(job),
            overrides=(
                *(f"{key}={value}" for key, value in self.overrides.items()),
                *settled_options(job),
            ),
        )
        check_places(job, _places_elsewhere(submission))
        return submission


def _places_elsewhere(submission: Submission) -> Sequence[str]:
    """Options that mean places in a folder which is deleted with the driver."""
    if _is_connected(submission):
        return ()
    if not submission.is_driver_here:
        return LOCAL_PLACES
    return () if submission.environment is None else PLACES


def _is_connected(submission: Submission) -> bool:
    return submission.spark.master.startswith(CONNECT)


def _run_driver(submission: Submission, folder: Path, say: Say, *, is_watched: bool) -> int:
    require_java()
    place = None
    if submission.environment is not None and submission.is_driver_here:
        unpack_environment(submission.environment, folder)
        place = folder
    # What the driver says, Spark writes to its own output, whichever of both the driver took.
    environ = submit_environment(submission, os.environ, is_watched=is_watched)
    submission = quieter(submission)
    with secrets_file(submit_settings(submission), folder) as secrets:
        command = submit_command(submission, secrets)
        # The JVM would end with Ctrl-C at once, and with it the driver that it has below it.
        is_shielded = submission.is_driver_here
        return run_to_its_end(command, environ, place, say, is_shielded=is_shielded)
