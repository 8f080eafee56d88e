"""`emberq spark`: jobs on Spark, each a command whose options are those of its class."""

import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args, get_origin

import click
import msgspec

from emberq.cli.output import Column, echo_facts, echo_json, echo_table, echo_title
from emberq.cli.task_bar import TaskBar
from emberq.errors import ConfigError, EmberqError
from emberq.pipelines.catalogue import JOBS, job_class, read_job_file
from emberq.pipelines.file_values import names_of
from emberq.pipelines.job import Job, Report, SparkSettings, read_job
from emberq.pipelines.titles import TITLES

if TYPE_CHECKING:
    from emberq.pipelines.submit import Submit

ROWS_SHOWN_MAX = 40
_TITLE_MAX = 60  # of a command, in characters: a line of 80 has room for it
CLIENT, CLUSTER = "client", "cluster"
_MASTER = "where Spark runs: local[*], local[4], spark://host:port, …"
_CONF = "a setting of Spark; may be repeated"
_SET = "an option of the job, wins over the file; may be repeated"
_EXTRA = "jobs on Spark need more: pip install 'emberq[spark]'"


class JobGroup(click.Group):
    """One command per job, made from the job's options when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*JOBS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in JOBS:
            return super().get_command(ctx, cmd_name)
        try:
            return job_command(job_class(cmd_name))
        except ImportError as error:
            raise click.ClickException(_EXTRA) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        others = [
            (name, each.get_short_help_str(_TITLE_MAX)) for name, each in self.commands.items()
        ]
        with formatter.section("Jobs"):
            formatter.write_dl([(name, TITLES[name]) for name in JOBS])
        with formatter.section("More"):
            formatter.write_dl(others)


@click.command(cls=JobGroup)
def spark() -> None:
    """Topics as data: jobs that run on Spark, on this machine or on a cluster.

    A job's options may also stand in a YAML file: `emberq spark run job.yaml` runs it here,
    `emberq spark submit job.yaml` on a cluster.
    """


def job_command(kind: type[Job]) -> click.Command:
    """A command with an option per field of the job."""
    shared = {field.name for field in msgspec.structs.fields(Job)}
    fields = sorted(
        (field for field in msgspec.structs.fields(kind) if field.name != "spark"),
        key=lambda field: (not field.required, field.name in shared),
    )
    options: list[click.Parameter] = [_option(field) for field in fields]
    return click.Command(
        kind.name,
        params=[*options, *_common_options()],
        callback=lambda **given: _run_command(kind, given),
        help=kind.__doc__,
        short_help=TITLES[kind.name],
    )


def _option(field: msgspec.structs.FieldInfo) -> click.Option:
    described = field.type
    meta = next((each for each in get_args(described)[1:] if isinstance(each, msgspec.Meta)), None)
    inner = get_args(described)[0] if meta is not None else described
    flag = f"--{_kebab(field.encode_name)}"
    text = (meta.description if meta is not None else "") or ""
    if inner is bool:
        return click.Option([flag, field.name], is_flag=True, default=None, help=text)
    if get_origin(inner) is dict:
        return click.Option([flag, field.name], multiple=True, metavar="KEY=VALUE", help=text)
    default = "" if field.default in (msgspec.NODEFAULT, "") else f"  [default: {field.default}]"
    return click.Option(
        [flag, field.name],
        type=int if inner is int else str,
        help=("required: " if field.required else "") + text + default,
    )


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(["--master"], metavar="MASTER", help=f"{_MASTER}  [default: local[*]]"),
        click.Option(["--conf"], multiple=True, metavar="KEY=VALUE", help=_CONF),
        click.Option(
            ["--dry-run", "is_dry"], is_flag=True, help="show what would be done, do nothing"
        ),
        click.Option(["--json", "is_json"], is_flag=True, help="print the report as JSON"),
    ]


def _run_command(kind: type[Job], given: dict[str, Any]) -> None:
    is_dry, is_json = given.pop("is_dry"), given.pop("is_json")
    job = read_job(kind, _texts(kind, given))
    execute(job, is_dry=is_dry, is_json=is_json)


def _texts(kind: type[Job], given: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line says, by the names that files use; what it does not say is left out."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    options: dict[str, Any] = {
        names[name]: _pairs(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if name in names and value not in (None, ())
    }
    settings = {"master": given.get("master"), "conf": _pairs(given.get("conf") or ())}
    kept = {name: value for name, value in settings.items() if value}
    return options | ({"spark": kept} if kept else {})


def _pairs(texts: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{text!r}: expected KEY=VALUE")
        pairs[key] = value
    return pairs


def execute(job: Job, *, is_dry: bool, is_json: bool) -> None:
    """Run a job, or plan it, and print its report; exit code 1 where the report is bad."""
    with TaskBar() as bar:
        report = job.plan() if is_dry else job.run(say=bar)
    if is_json:
        echo_json(report)
    else:
        echo_report(report, rest="; --json has all")
    if not report.is_good:
        sys.exit(1)


def echo_report(report: Report, rest: str = "") -> None:
    """Tables, then facts, for people; `rest` says where rows are that are not shown."""
    from emberq.pipelines.html_report import shown  # noqa: PLC0415 - only here

    for table in report.tables:
        echo_title(table.title)
        columns = [
            Column(name, _is_number(table.rows, place)) for place, name in enumerate(table.columns)
        ]
        rows = [[shown(value) for value in row] for row in table.rows[:ROWS_SHOWN_MAX]]
        echo_table(columns, rows)
        if len(table.rows) > ROWS_SHOWN_MAX:
            click.echo(f"and {len(table.rows) - ROWS_SHOWN_MAX:,} more{rest}")
    click.echo()
    echo_facts((name, shown(value)) for name, value in report.facts.items())


def _is_number(rows: list[list[Any]], place: int) -> bool:
    return any(isinstance(row[place], int | float) for row in rows)


def _kebab(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)


@spark.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=_SET)
@click.option("--master", metavar="MASTER", help=f"{_MASTER}  [default: the file's, local[*]]")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help=_CONF)
@click.option("--dry-run", "is_dry", is_flag=True, help="show what would be done, do nothing")
@click.option("--json", "is_json", is_flag=True, help="print the report as JSON")
def run_file(
    file: Path,
    overrides: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
    *,
    is_dry: bool,
    is_json: bool,
) -> None:
    """Run the job that a YAML file describes."""
    try:
        job = read_job_file(file, _pairs(overrides))
        job.spark = job.spark.under(master or "", _pairs(conf))
        execute(job, is_dry=is_dry, is_json=is_json)
    except ImportError as error:
        raise EmberqError(_EXTRA) from error


@spark.command("sql")
@click.argument("query", required=False)
@click.option("--topics", required=True, help="topics that become tables, separated by commas")
@click.option("--name-server", help="name servers; else NAMESRV_ADDR")
@click.option(
    "--source",
    multiple=True,
    metavar="KEY=VALUE",
    help="an option of the Spark source; may be repeated",
)
@click.option("--rows", "rows_max", default=50, show_default=True, help="rows shown per query")
@click.option("--master", default="local[*]", show_default=True, metavar="MASTER", help=_MASTER)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help=_CONF)
def sql_shell(
    query: str | None,
    topics: str,
    name_server: str | None,
    source: tuple[str, ...],
    rows_max: int,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Query topics in SQL: one QUERY, or a shell without one.

    Times are in UTC. Queries from a pipe, one per line, end with exit code 1 if one of them failed.
    """
    try:
        from emberq.cli.spark_sql import run_shell  # noqa: PLC0415 - needs Spark
    except ImportError as error:
        raise EmberqError(_EXTRA) from error

    options = _pairs(source) | ({"nameServer": name_server} if name_server else {})
    names = names_of(topics)
    settings = SparkSettings(master=master, conf=_pairs(conf))
    if not run_shell(query, names, options, rows_max=rows_max, settings=settings):
        sys.exit(1)


@spark.command("submit")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--master",
    metavar="MASTER",
    help="local[*], local-cluster[…], spark://host:port, yarn, k8s://…, sc://host:port; "
    "else the file's",
)
@click.option(
    "--deploy-mode",
    type=click.Choice([CLIENT, CLUSTER]),
    default=CLIENT,
    show_default=True,
    help="whether the driver runs here or in the cluster (yarn, k8s)",
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help=_CONF)
@click.option(
    "--py-files",
    "modules",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="a module (.py), a package's folder or a zip that the job needs; may be repeated",
)
@click.option(
    "--env",
    "environment",
    type=click.Path(exists=True, path_type=Path),
    help="a packed Python environment (.tar.gz) for workers that lack numpy, pyarrow or msgspec",
)
@click.option(
    "--package",
    type=click.Path(dir_okay=False, path_type=Path),
    help="where the package is written and kept  [default: a temporary file]",
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=_SET)
@click.option("--dry-run", "is_dry", is_flag=True, help="print the command, do not run it")
def submit(
    file: Path,
    master: str | None,
    deploy_mode: str,
    conf: tuple[str, ...],
    modules: tuple[Path, ...],
    environment: Path | None,
    package: Path | None,
    overrides: tuple[str, ...],
    *,
    is_dry: bool,
) -> None:
    """Run the job of a YAML file on a cluster.

    EmberQ travels along, and so do the file, the query that it names (`sql: query.sql`) and what
    --py-files names.
    """
    try:
        from emberq.pipelines.submit import Submit  # noqa: PLC0415 - an extra

        given = Submit(
            file=file,
            master=master or "",
            deploy_mode=deploy_mode,
            conf=_pairs(conf),
            py_files=modules,
            env=environment,
            package=package,
            overrides=_pairs(overrides),
        )
        if is_dry:
            _show_submission(given)
        else:
            _run_submission(given)
    except ImportError as error:
        raise EmberqError(_EXTRA) from error


def _show_submission(given: "Submit") -> None:
    planned = given.plan()
    click.echo(planned.text)
    if planned.redacted:
        click.echo(
            f"not shown, as every user could see them in a command: {', '.join(planned.redacted)}; "
            "without --dry-run Spark reads them from a file that only you can read",
            err=True,
        )


def _run_submission(given: "Submit") -> NoReturn:
    say: Callable[[str], None] = lambda text: click.echo(text, err=True)  # noqa: E731 - one line
    submitted = given.run(say, is_watched=sys.stdout.isatty())
    if submitted.report is not None:
        echo_report(submitted.report)
    sys.exit(submitted.exit_code)


@spark.group()
def pipelines() -> None:
    """A declarative pipeline with a table per topic."""


@pipelines.command("init")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--topics", required=True, help="topics, separated by commas")
@click.option(
    "--name-server",
    envvar="NAMESRV_ADDR",
    default="127.0.0.1:9876",
    show_default=True,
    help="name servers, host:port separated by `;`; else NAMESRV_ADDR",
)
def init_project(folder: Path, topics: str, name_server: str) -> None:
    """Write a project with a streaming table and a summary per topic."""
    from emberq.pipelines.declarative import write_project  # noqa: PLC0415 - each loads its own

    names = names_of(topics)
    for path in write_project(folder, names, name_server):
        click.echo(path)
    click.echo(f"run it with: emberq spark pipelines run {shlex.quote(str(folder))}")


@pipelines.command("run")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--dry-run", "is_dry", is_flag=True, help="check the project, read no message")
@click.option("--full-refresh", "is_full", is_flag=True, help="drop the tables and read all again")
@click.option(
    "--remote",
    default="local[*]",
    show_default=True,
    metavar="MASTER",
    help="where Spark runs: local[*], or a Connect server, sc://host:15002",
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help=_CONF)
def run_project(
    folder: Path, remote: str, conf: tuple[str, ...], *, is_dry: bool, is_full: bool
) -> None:
    """Bring the tables of a project up to date.

    This runs Spark's own spark-pipelines in the project's folder.
    """
    try:
        from emberq.pipelines.declarative import run_command  # noqa: PLC0415 - an extra
        from emberq.spark.java import require_java  # noqa: PLC0415 - an extra
        from emberq.spark.local_session import use_own_interpreters  # noqa: PLC0415 - an extra

        command = run_command(folder, remote, _pairs(conf), is_dry=is_dry, is_full=is_full)
    except ImportError as error:
        raise EmberqError(_EXTRA) from error
    use_own_interpreters(remote)
    require_java()
    # Tables and catalogue stand in the folder, wherever the command is given.
    sys.exit(subprocess.run(command, cwd=folder, check=False).returncode)
