"""`emberq store`: look into a store directory, EmberQ's or an official broker's."""

import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from emberq.cli.message_json import BodyForm, message_line
from emberq.cli.output import Progress, echo_json, progress_bar, warn
from emberq.cli.store_config_files import config_files, known_topics
from emberq.errors import EmberqError, RecordError
from emberq.store.selection import MessageSelector, Selection
from emberq.store.view.directory import StoreView

EXIT_FINDINGS = 1
EXIT_UNUSABLE = 2
WRITE_SIZE_BYTES = 64 * 1024
WARNINGS_SHOWN_MAX = 20


def moment_ms(text: str) -> int:
    """A time on the command line: ISO, local unless it names a zone, or milliseconds."""
    if text.isascii() and text.isdigit() and len(text) > len("20240131"):
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is no time: give 2024-01-31T12:00:00 or milliseconds"
        ) from None


@click.group()
def store() -> None:
    """Look into a store directory, read-only.

    Works on directories of EmberQ and of official brokers, whether a broker runs on them, has
    stopped or was killed, and on copies. Nothing is created, locked or changed.
    """


def on_store_directory(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its directory, and one line instead of a trace when that is unusable."""

    @click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
    @click.option(
        "--commit-log",
        "log_folders",
        multiple=True,
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Where storePathCommitLog points, if not to DIR/commitlog; may be repeated.",
    )
    @wraps(command)
    def opened(directory: Path, log_folders: tuple[Path, ...], **options: Any) -> None:
        try:
            view = StoreView(directory, log_folders=log_folders)
            try:
                command(view, **options)
            finally:
                view.close()
        except BrokenPipeError:  # whoever reads has seen enough
            raise
        except EmberqError as error:
            _refuse(str(error))
        except OSError as error:
            _refuse(f"{error.filename or directory}: {error.strerror or error}")

    return opened


def _refuse(reason: str) -> NoReturn:
    click.echo(f"emberq: {reason}", err=True)
    sys.exit(EXIT_UNUSABLE)


@store.command()
@on_store_directory
@click.option("--crc", "is_crc_checked", is_flag=True, help="Check the bodies of all messages too.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--limit",
    "rows_max",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="Rows shown per table; 0 shows all. JSON has all.",
)
def inspect(view: StoreView, *, is_crc_checked: bool, is_json: bool, rows_max: int) -> None:
    """Show segments, queues, index, state and damage.

    The heads of all records are read; --crc reads the bodies as well. Exits with 1 if something
    is damaged.
    """
    from emberq.cli.store_report import echo_report  # noqa: PLC0415 - each command loads its own
    from emberq.store.inspection import Inspection  # noqa: PLC0415

    with progress_bar("Reading the log") as progress:
        report = Inspection(view, is_crc_checked=is_crc_checked, progress=progress).run()
    files = config_files(view.root)
    if is_json:
        echo_json({**msgspec.to_builtins(report), "configFiles": msgspec.to_builtins(files)})
    else:
        echo_report(report, files, rows_max=rows_max or sys.maxsize)
    if report.problem_count:
        sys.exit(EXIT_FINDINGS)


@store.command()
@on_store_directory
@click.option("--topic", metavar="TOPIC", help="Only messages of this topic.")
@click.option("--queue", "queue_id", type=int, metavar="N", help="Only messages of this queue.")
@click.option("--from-offset", "offset_min", type=int, metavar="N", help="First queue offset.")
@click.option("--to-offset", "offset_max", type=int, metavar="N", help="Last queue offset.")
@click.option(
    "--since", "stored_from_ms", type=moment_ms, metavar="TIME", help="Stored then or later."
)
@click.option("--until", "stored_until_ms", type=moment_ms, metavar="TIME", help="Stored by then.")
@click.option("--key", metavar="KEY", help="Messages with this key, or with this unique key.")
@click.option(
    "--id", "message_id", metavar="ID", help="The message with this offset id or unique key."
)
@click.option("--log-offset", type=int, metavar="N", help="The message at this place in the log.")
@click.option(
    "--from-log",
    "is_from_log",
    is_flag=True,
    help="Walk the log in its order instead of queues and index; finds what these lack.",
)
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N messages."
)
@click.option(
    "--body",
    "body_form",
    type=click.Choice([form.value for form in BodyForm]),
    default=BodyForm.AUTO.value,
    show_default=True,
    help="How bodies are shown; auto is text where they are UTF-8, else base64.",
)
@click.option("--decompress", "is_decompressed", is_flag=True, help="Unpack compressed bodies.")
def dump(view: StoreView, *, body_form: str, is_decompressed: bool, **conditions: Any) -> None:
    """Print messages as lines of JSON.

    Without conditions all messages are printed, queue by queue. TIME is an ISO date or time (local
    unless it names a zone) or milliseconds. Messages that cannot be read are named on stderr, and
    the exit code is 1.
    """
    warnings = _Warnings()
    # Lines and a bar on one terminal would only disturb each other.
    with progress_bar("Reading", is_wanted=not sys.stdout.isatty()) as progress:
        _write_lines(
            _lines(view, Selection(**conditions), warnings, progress, body_form, is_decompressed)
        )
    warnings.tell_rest()
    if warnings.count:
        sys.exit(EXIT_FINDINGS)


def _lines(
    view: StoreView,
    selection: Selection,
    warnings: "_Warnings",
    progress: Progress | None,
    body_form: str,
    is_decompressed: bool,
) -> Iterator[bytes]:
    form = BodyForm(body_form)
    encoder = msgspec.json.Encoder()
    for record in MessageSelector(view, selection, on_damage=warnings.add, progress=progress):
        try:
            line = message_line(record, form, is_decompressed=is_decompressed)
        except RecordError as error:
            warnings.add(f"the message at {record.log_offset} stays compressed: {error}")
            line = message_line(record, form, is_decompressed=False)
        yield encoder.encode(line)


def _write_lines(lines: Iterator[bytes]) -> None:
    """Together while they come fast; at once for a person who watches."""
    output = sys.stdout.buffer
    is_watched = sys.stdout.isatty()
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting += (line, b"\n")
        size += len(line)
        if size >= WRITE_SIZE_BYTES or is_watched:
            output.write(b"".join(waiting))
            waiting.clear()
            size = 0
    output.write(b"".join(waiting))
    output.flush()


class _Warnings:
    """Shows the first warnings and counts the rest."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, text: str) -> None:
        self.count += 1
        if self.count <= WARNINGS_SHOWN_MAX:
            warn(text)

    def tell_rest(self) -> None:
        if self.count > WARNINGS_SHOWN_MAX:
            warn(f"{self.count - WARNINGS_SHOWN_MAX:,} more messages cannot be read")


@store.command()
@on_store_directory
@click.option("--no-index", is_flag=True, help="Leave the key index out.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--limit",
    "findings_max",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Findings shown in full; all are counted.",
)
def verify(view: StoreView, *, no_index: bool, is_json: bool, findings_max: int) -> None:
    """Check every record, queue entry and key of a store.

    Damaged parts of the log are skipped and the rest is checked. Exit code: 0 if all is well, 1 if
    something is wrong, 2 if the directory cannot be checked.
    """
    from emberq.cli.store_report import echo_verification  # noqa: PLC0415 - as above
    from emberq.store.verification import Verifier  # noqa: PLC0415

    begin = time.monotonic()
    with progress_bar("Verifying") as progress:
        outcome = Verifier(
            view,
            is_index_checked=not no_index,
            known_topics=known_topics(view.root),
            findings_kept_max=findings_max,
            progress=progress,
        ).run()
    if is_json:
        echo_json(outcome)
    else:
        echo_verification(outcome, time.monotonic() - begin)
    if outcome.finding_count:
        sys.exit(EXIT_FINDINGS)
