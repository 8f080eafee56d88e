"""The SQL shell of `emberq spark sql`."""

from collections.abc import Mapping

import click

from emberq.cli.output import Column, echo_table
from emberq.pipelines.failures import cause_of
from emberq.pipelines.html_report import shown
from emberq.pipelines.job import SparkSettings
from emberq.pipelines.session import job_session
from emberq.pipelines.sql import register_topics

PROMPT = "sql> "
_END = ("exit", "quit", "\\q")


def run_shell(
    query: str | None,
    topics: list[str],
    source: Mapping[str, str],
    *,
    rows_max: int,
    settings: SparkSettings,
) -> None:
    """Answer one query, or queries until the end of the input."""
    with job_session(settings) as session:
        columns = register_topics(session, topics, source)
        if query is not None:
            _answer(session, query, rows_max)
            return
        for topic, names in columns.items():
            click.echo(f"`{topic}`: {', '.join(names)}", err=True)
        click.echo("a query per line; exit or Ctrl-D ends", err=True)
        while (line := _read_line()) is not None:
            if not line.strip():
                continue
            try:
                _answer(session, line.strip().rstrip(";"), rows_max)
            except Exception as error:
                click.echo(f"emberq: {cause_of(error)}", err=True)


def _read_line() -> str | None:
    try:
        line = input(PROMPT)
    except (EOFError, KeyboardInterrupt):
        return None
    return None if line.strip() in _END else line


def _answer(session: object, query: str, rows_max: int) -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    assert isinstance(session, SparkSession)
    frame = session.sql(query)
    rows = frame.limit(rows_max + 1).collect()
    echo_table(
        [Column(name) for name in frame.columns],
        [[_cell(value) for value in row] for row in rows[:rows_max]],
    )
    if len(rows) > rows_max:
        click.echo(f"more than {rows_max} rows; --rows shows more", err=True)


def _cell(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    return shown(value)
