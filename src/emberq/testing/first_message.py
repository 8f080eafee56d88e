"""`python -m emberq.testing.first_message HOST:PORT`: one message sent and read back.

It speaks the protocol in the open, step by step; programs use a client.
"""

import sys
import time

import click
from msgspec import Struct

from emberq.errors import EmberqError
from emberq.model.route import TopicRoute
from emberq.model.system_topics import DEFAULT_TOPIC
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command
from emberq.protocol.header_fields import from_fields, to_fields
from emberq.protocol.headers.pull import PullMessage
from emberq.protocol.headers.send import SendMessageResponse, SendMessageV2
from emberq.record.decode import decode_record
from emberq.record.record import Record
from emberq.remoting.addresses import split_address
from emberq.remoting.event_loop import run
from emberq.testing.local_nameserver import RawClient, connected

TOPIC = "FirstTopic"
GROUP = "first-message"
QUEUE_COUNT = 4
# Bits of a pull's system flag: the pull carries its subscription.
HAS_SUBSCRIPTION = 4


class SentMessage(Struct, frozen=True, kw_only=True):
    """Where a broker put a message."""

    message_id: str
    topic: str
    queue_id: int
    queue_offset: int


def main() -> None:
    if len(sys.argv) != 2:
        click.echo("usage: python -m emberq.testing.first_message NAME_SERVER_HOST:PORT", err=True)
        sys.exit(2)
    try:
        run(_journey(sys.argv[1]))
    except EmberqError as error:
        click.echo(f"first_message: {error}", err=True)
        sys.exit(1)


async def _journey(name_server: str) -> None:
    address = await broker_address(name_server)
    click.echo(f"name server {name_server}: a broker is at {address}")
    async with connected(*split_address(address)) as broker:
        sent = await send(broker, TOPIC, f"hello at {time.strftime('%H:%M:%S')}".encode())
        click.echo(
            f"sent: topic {sent.topic}, queue {sent.queue_id}, offset {sent.queue_offset}, "
            f"id {sent.message_id}"
        )
        record = await pull_one(broker, sent)
        click.echo(f"read back: {bytes(record.body).decode()!r}")


async def broker_address(name_server: str, topic: str = DEFAULT_TOPIC) -> str:
    """The master of the first broker that has this topic, by default of any."""
    async with connected(*split_address(name_server)) as client:
        found = _checked(await client.route(topic), "no route")
    return decode_body(TopicRoute, found.body).brokers[0].addresses[0]


async def send(broker: RawClient, topic: str, body: bytes, queue_id: int = 0) -> SentMessage:
    """Send one message; the broker makes the topic if it has none of this name."""
    header = SendMessageV2(
        producer_group=GROUP,
        topic=topic,
        default_topic=DEFAULT_TOPIC,
        default_topic_queue_count=QUEUE_COUNT,
        queue_id=queue_id,
        system_flag=0,
        born_at_ms=time.time_ns() // 1_000_000,
        flag=0,
    )
    answer = _checked(await broker.call(header.code, to_fields(header), body), "not sent")
    where = from_fields(SendMessageResponse, answer.fields or {})
    return SentMessage(
        message_id=where.message_id,
        topic=topic,
        queue_id=where.queue_id,
        queue_offset=where.queue_offset,
    )


async def pull_one(broker: RawClient, sent: SentMessage) -> Record:
    """Read a message from where it was put."""
    header = PullMessage(
        consumer_group=GROUP,
        topic=sent.topic,
        queue_id=sent.queue_id,
        queue_offset=sent.queue_offset,
        max_message_count=1,
        system_flag=HAS_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_ms=0,
        subscription="*",
        subscription_version=0,
    )
    answer = _checked(await broker.call(header.code, to_fields(header)), "not read")
    return decode_record(answer.body)


def _checked(answer: Command, trouble: str) -> Command:
    if answer.code != ResponseCode.SUCCESS:
        raise EmberqError(f"{trouble}: code {answer.code}, {answer.remark}")
    return answer


if __name__ == "__main__":
    main()
