"""Our client's signatures, checked by official brokers with access control."""

import asyncio
from pathlib import Path

import pytest

from emberq.aio import Client, Credentials, Producer, PullConsumer
from emberq.errors import BrokerError
from tests.client_behaviour.server import FIRST, unique
from tests.interop.harness.artifacts import LINES, Line
from tests.interop.harness.cluster import wait_until_registered
from tests.interop.harness.java import prepare_home
from tests.interop.harness.servers import (
    start_emberq_name_server,
    start_official_broker,
    wait_for_boot,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

OLD, NEW = LINES
KEY, SECRET = "emberq-tests", "12345678"
ACCOUNTS = f"""
accounts:
- accessKey: {KEY}
  secretKey: {SECRET}
  admin: true
"""
AUTH = "org.apache.rocketmq.auth"
USER = f'{{"username":"{KEY}","password":"{SECRET}"}}'
SELF = f'{{"accessKey":"{KEY}","secretKey":"{SECRET}"}}'
# The kind that 5.x has: users with rights, kept by the broker.
USERS_AND_RIGHTS = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "initAuthenticationUser": USER,
    "innerClientAuthenticationCredentials": SELF,
    "authorizationEnabled": "true",
    "authorizationProvider": f"{AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{AUTH}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
}
# 4.9 with "No accessKey is configured", or a signature that does not fit.
SYSTEM_ERROR, NO_PERMISSION = 1, 16


@pytest.mark.parametrize(
    ("line", "settings", "refusal"),
    [
        pytest.param(OLD, {"aclEnable": "true"}, SYSTEM_ERROR, id="4.9, accounts in a file"),
        pytest.param(NEW, USERS_AND_RIGHTS, NO_PERMISSION, id="5.5, users and rights"),
    ],
)
def test_signed_requests_are_taken_and_others_are_refused(
    official_artifacts: None, home: Path, line: Line, settings: dict[str, str], refusal: int
) -> None:
    name_server = start_emberq_name_server(home / "namesrv")
    wait_for_boot(name_server)
    prepare_home(home / "broker")
    (home / "broker" / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    broker = start_official_broker(
        line, "brk-acl", home / "broker", [name_server], port=None, java_options=(), **settings
    )
    broker.wait_for_boot()
    wait_until_registered(name_server, broker)

    asyncio.run(_play(name_server.address, refusal))


async def _play(name_server: str, refusal: int) -> None:
    topic = unique("signed")
    right = Credentials(KEY, SECRET)
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

    for wrong in (None, Credentials(KEY, "87654321"), Credentials("nobody", SECRET)):
        async with (
            Client(name_server, credentials=wrong) as client,
            Producer("strangers", client=client, retries=0) as producer,
        ):
            with pytest.raises(BrokerError) as caught:
                await producer.send(topic, b"unsigned")
            assert caught.value.code == refusal
