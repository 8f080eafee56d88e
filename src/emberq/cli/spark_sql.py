"""The SQL shell of `emberq spark sql`."""

import sys
import time
from collections.abc import Iterator, Mapping
from threading import Thread
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
    from pyspark.sql import DataFrame, SparkSession

PROMPT = "sql> "
_END = ("exit", "quit", "\\q")
# How long a query may take to end that is cancelled; then it goes on, and so does the shell.
CANCEL_MAX_S = 10.0
_CANCEL_AGAIN_S = 0.1


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
        except KeyboardInterrupt:
            click.echo()
            if not prompt:
                return
            continue
        except EOFError:
            return
        query = line.strip().rstrip(";").rstrip()
        if query in _END:
            return
        if query:
            yield query


def _try(session: "SparkSession", query: str, rows_max: int) -> bool:
    """Whether there was an answer; why not is told.

    It is asked for in a thread of its own: Ctrl-C in the midst of a call of Java breaks the
    connection to it, and sometimes the one behind it.
    """
    failures: list[Exception] = []

    def ask() -> None:
        try:
            _answer(session, query, rows_max)
        except Exception as error:
            failures.append(error)

    asking = Thread(target=ask, daemon=True)
    asking.start()
    try:
        with quiet_interrupts():
            asking.join()
    except KeyboardInterrupt:  # of this query, not of the shell
        _cancel(session, asking)
        click.echo("\nemberq: cancelled", err=True)
        return False
    for error in failures:
        click.echo(f"emberq: {cause_of(error)}", err=True)
    return not failures


def _cancel(session: "SparkSession", asking: Thread) -> None:
    """Again and again: a query that is still planned has nothing yet that could be cancelled."""
    until_s = time.monotonic() + CANCEL_MAX_S
    while asking.is_alive() and time.monotonic() < until_s:
        session.interruptAll()
        asking.join(_CANCEL_AGAIN_S)


def _answer(session: "SparkSession", query: str, rows_max: int) -> None:
    frame = session.sql(query)
    rows = collect_utc(_with_readable_parts(frame.limit(rows_max + 1)))
    echo_table(
        [Column(name) for name in frame.columns],
        [[_cell(value) for value in row] for row in rows[:rows_max]],
    )
    if len(rows) > rows_max:
        click.echo(f"more than {rows_max} rows; --rows shows more", err=True)


def _with_readable_parts(frame: "DataFrame") -> "DataFrame":
    """Structs, arrays and maps as Spark shows them: with times of the session's zone."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra
    from pyspark.sql.types import ArrayType, MapType, StructType  # noqa: PLC0415

    fields = frame.schema.fields
    # Columns by place: names may be expressions, or the same twice.
    places = [f"c{place}" for place in range(len(fields))]
    return frame.toDF(*places).select(
        *(
            f.col(name).cast("string").alias(field.name)
            if isinstance(field.dataType, ArrayType | MapType | StructType)
            else f.col(name).alias(field.name)
            for name, field in zip(places, fields, strict=True)
        )
    )


def _cell(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    return shown(value)
