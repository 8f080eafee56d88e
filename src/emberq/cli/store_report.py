"""The reports of `emberq store inspect` and `verify` as people read them."""

import time
from collections.abc import Sequence

import click

from emberq.cli.output import (
    Column,
    echo_facts,
    echo_table,
    echo_title,
    format_size,
    format_time,
)
from emberq.cli.store_config_files import ConfigFile
from emberq.store.checks.findings import Finding
from emberq.store.inspection import CheckpointReport, Problem, StoreReport
from emberq.store.verification import Verification

_STATES = {
    "running": "a broker runs on it",
    "starting or stopping": "a broker starts or stops",
    "stopped": "stopped cleanly",
    "killed": "not stopped cleanly: the next start recovers",
    "killed or running": "running, or not stopped cleanly",
}
_PROBLEMS_SHOWN_MAX = 20


def echo_report(report: StoreReport, files: list[ConfigFile], *, rows_max: int) -> None:
    click.echo(click.style(report.root, bold=True))
    echo_facts(_facts(report))
    _echo_segments(report, rows_max)
    _echo_queues(report, rows_max)
    _echo_index_files(report, rows_max)
    _echo_config_files(files)
    _echo_notes(report.notes)
    _echo_problems(report)


def _facts(report: StoreReport) -> list[tuple[str, str]]:
    holder = "" if report.lock_process_id is None else f" by process {report.lock_process_id}"
    abort = "there" if report.has_abort else "absent"
    facts = [
        ("state", f"{_STATES[report.state]} (abort {abort}, lock {report.lock}{holder})"),
        (
            "log",
            f"{report.log_min_offset:,} to {report.log_end_offset:,}: {report.records:,} records "
            f"in {_plural(len(report.segments), 'segment')} of "
            f"{format_size(report.segment_size_bytes)}",
        ),
    ]
    if report.checkpoint is None:
        facts.append(("checkpoint", "none"))
    else:
        facts += _checkpoint(report.checkpoint)
    facts.append(("times", time.strftime("local, UTC%z")))
    return facts


def _checkpoint(checkpoint: CheckpointReport) -> list[tuple[str, str]]:
    facts = [
        ("checkpoint", f"log     {format_time(checkpoint.log_at_ms)}"),
        ("", f"queues  {format_time(checkpoint.queues_at_ms)}"),
        ("", f"index   {format_time(checkpoint.index_at_ms)}"),
    ]
    offsets = [
        f"{name} {offset:,}"
        for name, offset in (
            ("dispatched", checkpoint.dispatched_offset),
            ("confirmed", checkpoint.confirmed_offset),
            ("flushed by the master", checkpoint.master_flushed_offset),
        )
        if offset
    ]
    return facts + ([("", ", ".join(offsets))] if offsets else [])


def _echo_segments(report: StoreReport, rows_max: int) -> None:
    segments = report.segments
    echo_title("Segments")
    columns = [
        Column("START", True),
        Column("USED", True),
        Column("RECORDS", True),
        Column("FIRST STORED"),
        Column("LAST STORED"),
    ]
    rows = [
        [
            f"{segment.start:,}",
            format_size(segment.used_bytes),
            f"{segment.records:,}",
            format_time(segment.first_stored_at_ms),
            format_time(segment.last_stored_at_ms),
        ]
        for segment in segments[:rows_max]
    ]
    _echo_rows(columns, rows, len(segments))


def _echo_queues(report: StoreReport, rows_max: int) -> None:
    queues = report.queues
    topics = len({queue.topic for queue in queues})
    echo_title(f"Queues ({len(queues):,} of {_plural(topics, 'topic')})")
    columns = [
        Column("TOPIC"),
        Column("QUEUE", True),
        Column("MIN", True),
        Column("MAX", True),
        Column("MESSAGES", True),
        Column("FIRST STORED"),
        Column("LAST STORED"),
        Column("FILES", True),
    ]
    rows = [
        [
            queue.topic,
            str(queue.queue_id),
            f"{queue.min_offset:,}",
            f"{queue.max_offset:,}",
            f"{queue.max_offset - queue.min_offset:,}",
            format_time(queue.first_stored_at_ms),
            format_time(queue.last_stored_at_ms),
            str(queue.files),
        ]
        for queue in queues[:rows_max]
    ]
    _echo_rows(columns, rows, len(queues))


def _echo_index_files(report: StoreReport, rows_max: int) -> None:
    files = report.index_files
    echo_title("Index files")
    columns = [
        Column("FILE"),
        Column("ENTRIES", True),
        Column("SLOTS USED", True),
        Column("FIRST STORED"),
        Column("LAST STORED"),
    ]
    rows = [
        [
            file.path.rpartition("/")[2],
            f"{file.entries:,}",
            f"{file.slots_used:,} of {'?' if file.slots is None else f'{file.slots:,}'}",
            format_time(file.begin_at_ms),
            format_time(file.end_at_ms),
        ]
        for file in files[:rows_max]
    ]
    _echo_rows(columns, rows, len(files))


def _echo_config_files(files: list[ConfigFile]) -> None:
    if not files:
        return
    echo_title("Configuration")
    echo_table(
        [Column("FILE"), Column("HOLDS"), Column("CHANGES", True), Column("WRITTEN")],
        [
            [
                file.name,
                file.problem or f"{file.count:,} {file.counted}",
                "-" if file.version is None else f"{file.version:,}",
                format_time(file.modified_at_ms),
            ]
            for file in files
        ],
    )


def _echo_rows(columns: Sequence[Column], rows: list[list[str]], count: int) -> None:
    if not rows:
        click.echo("none")
        return
    echo_table(columns, rows)
    if count > len(rows):
        click.echo(f"… and {count - len(rows):,} more (--limit 0 shows all)")


def _echo_notes(notes: list[str]) -> None:
    if notes:
        echo_title("Notes")
        for note in notes:
            click.echo(f"· {note}")


def _echo_problems(report: StoreReport) -> None:
    if not report.problem_count:
        click.echo()
        checked = "heads and bodies" if report.is_crc_checked else "heads; --crc checks bodies too"
        click.echo(f"{_good('No damage found')} ({checked}).")
        return
    echo_title("Problems")
    for problem in report.problems[:_PROBLEMS_SHOWN_MAX]:
        click.echo(f"{_bad(problem.kind)}  {_place(problem)}{problem.detail}")
    rest = report.problem_count - _PROBLEMS_SHOWN_MAX
    if rest > 0:
        click.echo(f"… and {rest:,} more")


def _place(problem: Problem) -> str:
    if problem.log_offset is None:
        return ""
    size = "" if problem.size_bytes is None else f", {format_size(problem.size_bytes)}"
    return f"log {problem.log_offset:,}{size}: "


def echo_verification(outcome: Verification, seconds: float) -> None:
    click.echo(click.style(outcome.root, bold=True))
    speed = outcome.bytes / max(seconds, 0.001)
    echo_facts(
        [
            ("state", _STATES[outcome.state]),
            (
                "log",
                f"{outcome.records:,} records, {format_size(outcome.bytes)}, "
                f"{outcome.log_min_offset:,} to {outcome.log_end_offset:,}",
            ),
            (
                "queues",
                f"{outcome.queue_entries:,} entries in {_plural(outcome.queues, 'queue')}",
            ),
            ("index", f"{outcome.index_entries:,} entries"),
            ("took", f"{seconds:.1f} s, {format_size(int(speed))}/s"),
        ]
    )
    _echo_notes(outcome.notes)
    if not outcome.finding_count:
        click.echo()
        click.echo(_good("Nothing is wrong."))
        return
    echo_title("Findings")
    echo_table(
        [Column("KIND"), Column("COUNT", True)],
        [[kind, f"{count:,}"] for kind, count in outcome.finding_counts.items()],
    )
    click.echo()
    for finding in outcome.findings:
        click.echo(f"{_bad(finding.kind.value)}  {_where(finding)}{finding.detail}")
    shown = sum(finding.count for finding in outcome.findings)
    if shown < outcome.finding_count:
        click.echo(f"… and {outcome.finding_count - shown:,} more (--limit shows more)")


def _where(finding: Finding) -> str:
    parts: list[str] = []
    if finding.file is not None:
        parts.append(f"file {finding.file}")
    if finding.queue_id is not None:
        place = f"{finding.topic}/{finding.queue_id}"
        if finding.queue_offset is not None:
            place += f" offset {finding.queue_offset:,}"
        if finding.count > 1:
            place += f" and {finding.count - 1:,} after it"
        parts.append(place)
    if finding.size_bytes is not None:
        parts.append(f"log {finding.log_offset:,}, {format_size(finding.size_bytes)}")
    return f"{', '.join(parts)}: " if parts else ""


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _good(text: str) -> str:
    return click.style(text, fg="green")


def _bad(text: str) -> str:
    return click.style(text, fg="red")
