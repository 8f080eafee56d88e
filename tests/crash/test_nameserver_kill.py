"""A name server killed while it stores: what it acknowledged is there, and nothing is torn."""

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from emberq.errors import RemotingError
from emberq.nameserver.kv_store import load_table
from emberq.protocol.codes import RequestCode
from emberq.testing.local_nameserver import LocalNameServer, RawClient, connected, run_name_server

pytestmark = pytest.mark.crash

ROUNDS = 10
WRITERS = 4
KEYS = 40
# Values that make the file long enough to be torn.
PADDING = "x" * 2_000
NAMESPACE = "crash"


async def put_until_it_dies(
    client: RawClient, writer: int, numbers: Iterator[int], acknowledged: dict[str, int]
) -> None:
    try:
        for number in numbers:
            key = f"{writer}-{number % KEYS}"
            fields = {"namespace": NAMESPACE, "key": key, "value": f"{number}-{PADDING}"}
            response = await client.call(RequestCode.PUT_KV_CONFIG, fields)
            assert response.code == 0
            acknowledged[key] = number
    except RemotingError:
        return


async def kill_while_putting(
    server: LocalNameServer, numbers: Iterator[int], acknowledged: dict[str, int], calls: int
) -> None:
    """Kill it after some calls; every writer has a value on its way then."""
    async with connected(server.host, server.port) as client:
        writers = [
            asyncio.create_task(put_until_it_dies(client, writer, numbers, acknowledged))
            for writer in range(WRITERS)
        ]
        for _ in range(calls):
            await client.call(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": NAMESPACE})
        await asyncio.to_thread(server.kill)
        async with asyncio.timeout(10):
            await asyncio.gather(*writers)


async def test_acknowledged_values_survive_every_kill(tmp_path: Path) -> None:
    numbers = count()
    acknowledged: dict[str, int] = {}
    for round_number in range(ROUNDS):
        with run_name_server(tmp_path, "--log-level", "error") as server:
            await kill_while_putting(server, numbers, acknowledged, calls=3 + 7 * round_number)

        stored = load_table(server.key_value_file).list(NAMESPACE) or {}
        for key, number in acknowledged.items():
            stored_number, _, padding = stored[key].partition("-")
            # A value on its way may have been stored without being acknowledged.
            assert int(stored_number) >= number
            assert padding == PADDING

    assert len(acknowledged) > WRITERS
    assert server.log() == ""  # the file was never damaged, so its predecessor never read
