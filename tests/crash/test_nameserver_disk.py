"""A name server whose disk takes no more: senders are told, the service goes on."""

import sys
from pathlib import Path

import pytest

from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.testing.local_nameserver import Broker, RawClient, connected, run_name_server

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are POSIX"),
]

PUT, GET = RequestCode.PUT_KV_CONFIG, RequestCode.GET_KV_CONFIG
TOPICS = [TopicConfig(name="T1"), TopicConfig(name="T2")]
FILE_SIZE_MAX_BYTES = 4_096


def limit_file_sizes() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE_MAX_BYTES, FILE_SIZE_MAX_BYTES))


def entry(key: str, value: str) -> dict[str, str]:
    return {"namespace": "n", "key": key, "value": value}


async def assert_the_service_goes_on(client: RawClient) -> None:
    await client.register(Broker(), TOPICS)
    assert (await client.route("T1")).code == 0


async def test_a_full_disk_is_told_to_the_sender_and_nothing_is_lost(tmp_path: Path) -> None:
    with run_name_server(tmp_path, "--log-level", "error", preexec_fn=limit_file_sizes) as server:
        async with connected(server.host, server.port) as client:
            assert (await client.call(PUT, entry("small", "1"))).code == 0

            refused = await client.call(PUT, entry("large", "x" * FILE_SIZE_MAX_BYTES))
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert refused.remark == "the key-value table could not be stored: File too large"
            assert (await client.call(GET, entry("large", ""))).code == ResponseCode.QUERY_NOT_FOUND

            await assert_the_service_goes_on(client)
            assert (await client.call(PUT, entry("small", "2"))).code == 0
        folder = server.key_value_file.parent
        assert {path.name for path in folder.iterdir()} == {"kvConfig.json", "kvConfig.json.bak"}

    with run_name_server(tmp_path) as again:
        async with connected(again.host, again.port) as client:
            assert (await client.call(GET, entry("small", ""))).fields == {"value": "2"}


async def test_a_folder_that_cannot_be_made_is_told_to_the_sender(tmp_path: Path) -> None:
    with run_name_server(tmp_path) as server:
        (tmp_path / "namesrv").write_text("a file where the folder should be")
        async with connected(server.host, server.port) as client:
            refused = await client.call(PUT, entry("k", "v"))
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert "could not be stored" in (refused.remark or "")
            await assert_the_service_goes_on(client)

            (tmp_path / "namesrv").unlink()
            assert (await client.call(PUT, entry("k", "v"))).code == 0


async def test_a_configuration_that_cannot_be_stored_is_not_in_force(tmp_path: Path) -> None:
    with run_name_server(tmp_path, preexec_fn=limit_file_sizes) as server:
        before = server.config_file.read_bytes()
        async with connected(server.host, server.port) as client:
            body = f"productEnvName={'x' * FILE_SIZE_MAX_BYTES}\n".encode()

            refused = await client.call(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)

            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert refused.remark == "the configuration could not be stored: File too large"
            shown = await client.call(RequestCode.GET_NAMESRV_CONFIG)
            assert b"productEnvName=center\n" in shown.body
            await assert_the_service_goes_on(client)
        assert server.config_file.read_bytes() == before


async def test_a_damaged_file_gives_way_to_its_predecessor(tmp_path: Path) -> None:
    with run_name_server(tmp_path) as server:
        async with connected(server.host, server.port) as client:
            await client.call(PUT, entry("k", "1"))
            await client.call(PUT, entry("k", "2"))
    server.key_value_file.write_bytes(server.key_value_file.read_bytes()[:-5])

    with run_name_server(tmp_path) as again:
        async with connected(again.host, again.port) as client:
            assert (await client.call(GET, entry("k", ""))).fields == {"value": "1"}
        assert f"kv_file_damaged path={again.key_value_file}" in again.log()
