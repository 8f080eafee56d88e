"""The SQL shell of `emberq spark sql`."""

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from emberq.cli.output import Column, echo_table
from emberq.pipelines.failures import cause_of
from emberq.pipelines.html_report import shown
from emberq.pipelines.interrupts import quiet_interrupts
from emberq.pipelines.job import SparkSettings
from emberq.pipelines.session import job_session
from emberq.pipelines.sql import register_topics
from emberq.pipelines.times import collect_utc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROMPT = "sql> "
_END = ("exit", "quit", "\\q")


def run_shell(
    query: str | None,
    topics: list[str],
    source: Mapping[str, str],
    *,
    rows_max: int,
    settings: SparkSettings,
) -> bool:
    """Answer one query, or queries until the end of the input. False: one of them failed, and
    nobody was there to see it."""
    is_typed = sys.stdin.isatty()
    with job_session(settings) as session:
        columns = register_topics(session, topics, source)
        if query is not None:
            _answer(session, query, rows_max)
            return True
        for topic, names in columns.items():
            click.echo(f"`{topic}`: {', '.join(names)}", err=True)
        if is_typed:
            click.echo("a query per line; exit or Ctrl-D ends", err=True)
        is_good = True
        for each in _queries(PROMPT if is_typed else ""):
            is_good &= _try(session, each, rows_max)
        return is_good or is_typed


def _queries(prompt: str) -> Iterator[str]:
    while True:
        try:
            line = input(prompt)
        except (EOFError, KeyboardInterrupt):
            return
        query = line.strip().rstrip(";").rstrip()
        if query in _END:
            return
        if query:
            yield query


def _try(session: "SparkSession", query: str, rows_max: int) -> bool:
    """Whether there was an answer; why not is told."""
    try:
        with quiet_interrupts():
            _answer(session, query, rows_max)
    except KeyboardInterrupt:  # of this query, not of the shell
        session.sparkContext.cancelAllJobs()
        click.echo("\nemberq: cancelled", err=True)
    except Exception as error:
        click.echo(f"emberq: {cause_of(error)}", err=True)
    else:
        return True
    return False


def _answer(session: "SparkSession", query: str, rows_max: int) -> None:
    frame = session.sql(query)
    rows = collect_utc(frame.limit(rows_max + 1))
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
