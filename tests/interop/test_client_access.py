"""Our client's signatures, checked by official brokers with access control."""

import asyncio
from pathlib import Path

import pytest

from emberq.aio import Client, Credentials, Producer, PullConsumer
from emberq.errors import BrokerError
from tests.client_behaviour.server import FIRST, unique
from tests.interop.harness.artifacts import LINES
from tests.interop.harness.cluster import wait_until_registered
from tests.interop.harness.java import prepare_home
from tests.interop.harness.servers import (
    start_emberq_name_server,
    start_official_broker,
    wait_for_boot,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

# Of the old kind of access control, which 4.9 has.
OLD = LINES[0]
ACCOUNTS = """
accounts:
- accessKey: emberq-tests
  secretKey: 12345678
  admin: true
"""
REFUSED = 1  # with "No accessKey is configured", or a signature that does not fit


def test_signed_requests_are_taken_and_others_are_refused(
    official_artifacts: None, home: Path
) -> None:
    name_server = start_emberq_name_server(home / "namesrv")
    wait_for_boot(name_server)
    prepare_home(home / "broker")
    (home / "broker" / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    broker = start_official_broker(OLD, "brk-acl", home / "broker", [name_server], aclEnable="true")
    broker.wait_for_boot()
    wait_until_registered(name_server, broker)

    asyncio.run(_play(name_server.address))


async def _play(name_server: str) -> None:
    topic = unique("signed")
    right = Credentials("emberq-tests", "12345678")
    async with (
        Client(name_server, credentials=right) as client,
        Producer("signers", client=client) as producer,
        PullConsumer(unique("readers"), client=client, consume_from_where=FIRST) as consumer,
    ):
        await producer.create_topic(topic, queues=1)
        await producer.send(topic, b"signed", keys="k", properties={"colour": "grün"})
        await producer.send_oneway(topic, b"oneway")
        await consumer.subscribe(topic)
        found: list[bytes] = []
        async with asyncio.timeout(60):
            while len(found) < 2:
                found += [message.body for message in await consumer.poll(timeout=1.0)]
        assert found == [b"signed", b"oneway"]
        [message] = await producer.query_messages(topic, "k")
        assert message.body == b"signed"

    for wrong in (None, Credentials("emberq-tests", "87654321"), Credentials("nobody", "12345678")):
        async with (
            Client(name_server, credentials=wrong) as client,
            Producer("strangers", client=client, retries=0) as producer,
        ):
            with pytest.raises(BrokerError) as caught:
                await producer.send(topic, b"unsigned")
            assert caught.value.code == REFUSED
