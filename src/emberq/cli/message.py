"""`emberq message`: find messages in a cluster, and what became of them."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import click

from emberq.admin import Admin, MessageTrace
from emberq.cli.message_json import BodyForm, MessageLine, message_line
from emberq.cli.output import Column, echo_facts, echo_json, echo_table, echo_title, format_time
from emberq.client.core.received import ReceivedMessage
from emberq.client.core.trace_reading import (
    ConsumeBegan,
    ConsumeEnded,
    Published,
    TraceEvent,
    TransactionEnded,
)
from emberq.model.system_topics import TRACE_TOPIC

QUERY_COUNT = 32
_NONE = "-"
_TRACE_COLUMNS = (
    Column("TIME"),
    Column("EVENT"),
    Column("GROUP"),
    Column("CLIENT"),
    Column("BROKER"),
    Column("COST", is_right=True),
    Column("RESULT"),
)


@click.group()
def message() -> None:
    """Find messages, and what became of them."""


def with_admin(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Give a command a cluster to ask, and the choice of its output."""

    @click.option(
        "-n",
        "--namesrv-addr",
        metavar="HOST:PORT;…",
        help="Name servers; without it the environment's NAMESRV_ADDR counts.",
    )
    @click.option("--json", "is_json", is_flag=True, help="Print JSON.")
    @wraps(command)
    def run(namesrv_addr: str | None, **options: Any) -> None:
        async def ask() -> None:
            async with Admin(namesrv_addr) as admin:
                await command(admin, **options)

        asyncio.run(ask())

    return run


@message.command()
@click.argument("id_or_key", metavar="ID_OR_KEY")
@click.option(
    "--topic",
    default=TRACE_TOPIC,
    show_default=True,
    help="The topic that clients send their traces to.",
)
@with_admin
async def trace(admin: Admin, id_or_key: str, topic: str, is_json: bool) -> None:
    """Show the way of a message: sent, ended, consumed; when, where, at which cost.

    The message is named by its id, the producer's or the broker's, or by a key.
    """
    traces = await admin.trace(id_or_key, trace_topic=topic)
    if is_json:
        echo_json(traces)
        return
    for each in traces:
        _echo_trace(each)


@message.command()
@click.argument("message_id", metavar="ID")
@with_admin
async def view(admin: Admin, message_id: str, is_json: bool) -> None:
    """Show the message with a broker's id, which names the broker itself."""
    found = _line(await admin.view_message(message_id))
    if is_json:
        echo_json(found)
    else:
        _echo_message(found)


@message.command()
@click.argument("topic")
@click.argument("key")
@click.option("--count", default=QUERY_COUNT, show_default=True, help="At most so many.")
@with_admin
async def query(admin: Admin, topic: str, key: str, count: int, is_json: bool) -> None:
    """Show the messages of a topic that have a key, or a producer's id; oldest first."""
    lines = [_line(each) for each in await admin.query_messages(topic, key, count=count)]
    if is_json:
        echo_json(lines)
        return
    for line in lines:
        _echo_message(line)
    if not lines:
        click.echo(f"no message of {topic} has the key {key}")


@message.command()
@click.argument("message_id", metavar="ID")
@with_admin
async def resume(admin: Admin, message_id: str, is_json: bool) -> None:
    """Ask about a transaction again that was given up.

    The half message is named by the broker's id of the copy in TRANS_CHECK_MAX_TIME_TOPIC.
    """
    await admin.resume_transaction(message_id)
    if is_json:
        echo_json({"resumed": message_id})
    else:
        click.echo(f"producers will be asked about {message_id} again")


def _line(found: ReceivedMessage) -> MessageLine:
    return message_line(found.record, BodyForm.AUTO, is_decompressed=True)


def _echo_message(line: MessageLine) -> None:
    echo_title(line.unique_key or line.offset_id)
    echo_facts(
        [
            ("topic", line.topic),
            ("queue", f"{line.queue_id}, offset {line.queue_offset}"),
            ("broker's id", line.offset_id),
            ("keys", " ".join(line.keys) or _NONE),
            ("tags", line.tags or _NONE),
            ("born", f"{format_time(line.born_at_ms)} at {line.born_host}"),
            ("stored", f"{format_time(line.stored_at_ms)} at {line.store_host}"),
            ("attempts before", str(line.reconsume_times)),
            ("body", f"{line.body_size_bytes} bytes as {line.body_encoding}"),
        ]
    )
    click.echo(line.body)


def _echo_trace(found: MessageTrace) -> None:
    echo_title(found.message_id)
    echo_facts([("topic", found.topic or _NONE), ("keys", " ".join(found.keys) or _NONE)])
    echo_table(_TRACE_COLUMNS, [_row(event) for event in found.events])


def _row(event: TraceEvent) -> list[str]:
    name, broker, cost_ms, result = _particulars(event)
    return [
        format_time(event.at_ms),
        name,
        event.group or _NONE,
        event.client_host or _NONE,
        broker or _NONE,
        _NONE if cost_ms is None else f"{cost_ms} ms",
        result,
    ]


def _particulars(event: TraceEvent) -> tuple[str, str | None, int | None, str]:
    """Name, broker, cost and result."""
    match event:
        case Published():
            kind = "" if event.message_type in (None, "normal") else f", {event.message_type}"
            return "sent", event.store_host, event.cost_ms, _success(event.is_success) + kind
        case TransactionEnded():
            asked = ", the broker had asked" if event.is_from_check else ""
            return "transaction ended", event.store_host, None, f"{event.state or _NONE}{asked}"
        case ConsumeBegan():
            return "consume began", None, None, f"attempt {(event.retry_times or 0) + 1}"
        case ConsumeEnded():
            result = event.result or _success(event.is_success)
            return "consume ended", None, event.cost_ms, result
        case _:
            return "recalled", None, None, _success(event.is_success)


def _success(is_success: bool) -> str:
    return "success" if is_success else "failed"
