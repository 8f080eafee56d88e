"""Messages that a broker stores once: its answers, and a topic that is made anew."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from emberq.client.aio.client import Client
from emberq.client.aio.once import OnceSends
from emberq.client.aio.producer import Producer
from emberq.client.aio.scans import Scans
from emberq.client.core.message import Message
from emberq.client.core.received import received_messages
from emberq.errors import BrokerError, ConfigError, SystemBusy
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import EmberqCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.headers.topics import DeleteTopicInBroker
from emberq.remoting.connection import Connection
from emberq.testing.embedded import cluster_on_this_loop
from tests.integration.client.scripted import Handlers, broker, client_and_broker

pytestmark = pytest.mark.integration

QUEUE = MessageQueue("broker-0", 0, "orders")
GROUP = "once"


def answering(*codes: int) -> Handlers:
    """A broker that answers so, and the last of it for ever."""
    left = list(codes)

    def send_once(command: Command, connection: Connection) -> Command:
        return answer(command, left.pop(0) if len(left) > 1 else left[0])

    return {**broker(), EmberqCode.SEND_ONCE: send_once}  # type: ignore[dict-item] # a code of our own


def messages(*ids: str) -> list[tuple[Message, str]]:
    return [(Message("orders", each.encode()), each) for each in ids]


@pytest.mark.parametrize(
    "code", [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT]
)
async def test_what_is_not_safe_in_time_is_to_be_sent_again(code: ResponseCode) -> None:
    async with client_and_broker(answering(code, ResponseCode.SUCCESS)) as (client, _):
        sends = OnceSends(client, GROUP)

        with pytest.raises(SystemBusy, match=f"{int(code)}: stored, and not safe in time"):
            await sends.send(messages("A"), QUEUE, 5.0)
        await sends.send(messages("A"), QUEUE, 5.0)


async def test_a_master_without_slaves_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with client_and_broker(answering(ResponseCode.SLAVE_NOT_AVAILABLE)) as (client, _):
        sends = OnceSends(client, GROUP)

        with caplog.at_level(logging.WARNING, logger="emberq.client.aio.once"):
            for _ in range(2):
                await sends.send(messages("A"), QUEUE, 5.0)

    assert [record.message for record in caplog.records] == ["stored_without_slave broker=broker-0"]


async def test_a_broker_that_is_not_ours_is_named_and_other_refusals_are_told() -> None:
    unknown, broken = ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.SYSTEM_ERROR
    async with client_and_broker(answering(unknown, broken)) as (client, _):
        sends = OnceSends(client, GROUP)

        with pytest.raises(ConfigError, match="broker-0 does not know how to store messages once"):
            await sends.send(messages("A"), QUEUE, 5.0)
        with pytest.raises(BrokerError):
            await sends.send(messages("A"), QUEUE, 5.0)


async def bodies(client: Client, topic: str) -> list[str]:
    found: list[str] = []
    scans = Scans(client)
    for queue, head in (await scans.heads(await scans.queues(topic))).items():
        offset = head.min_offset
        while offset < head.max_offset:
            part = await scans.pull(queue, offset, head.max_offset)
            found += [message.text() for message in received_messages(part.content, queue)]
            offset = part.next_offset
    return found


async def test_a_topic_that_was_deleted_and_made_anew_takes_its_messages_again(
    tmp_path: Path,
) -> None:
    async with (
        cluster_on_this_loop(tmp_path) as cluster,
        Producer("makers", name_server=cluster.name_server) as producer,
    ):
        client = producer.client
        sends = OnceSends(client, GROUP)
        queue = MessageQueue("broker-a", 0, "orders")

        async def load(ids: Sequence[str]) -> None:
            await producer.create_topic("orders", queues=1)
            await client.routes.refresh("orders")
            await sends.send(messages(*ids), queue, 5.0)

        await load(["A", "B"])
        await client.call_broker("broker-a", DeleteTopicInBroker(topic="orders"))
        await load(["A", "B"])
        await load(["A", "B", "C"])

        assert await bodies(client, "orders") == ["A", "B", "C"]
