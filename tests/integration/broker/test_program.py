"""`emberq broker` as its users run it."""

from pathlib import Path

import pytest

from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import connected, run_name_server

pytestmark = pytest.mark.integration


async def test_a_broker_is_known_to_its_name_server_while_it_runs(tmp_path: Path) -> None:
    with run_name_server(tmp_path / "names") as names:
        async with connected(names.host, names.port) as client:
            with run_broker(tmp_path / "broker", name_servers=names.address) as broker:
                route = await client.route("TBW102")
                exit_code = broker.stop()
                gone = await client.route("TBW102")

    assert broker.address.encode() in route.body
    assert exit_code == 0
    assert gone.code == 17
