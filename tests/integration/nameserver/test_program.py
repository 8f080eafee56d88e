"""The program as its operators meet it."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from emberq.errors import EmberqError
from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.testing.local_nameserver import Broker, connected, run_name_server

pytestmark = pytest.mark.integration

TOPICS = [TopicConfig(name="T1"), TopicConfig(name="T2")]
PUT, GET = RequestCode.PUT_KV_CONFIG, RequestCode.GET_KV_CONFIG
ENTRY = {"namespace": "n", "key": "k", "value": "v"}


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_boot_line_is_exact_and_a_signal_ends_it_cleanly(
    tmp_path: Path, how: signal.Signals, loop: str
) -> None:
    command = [sys.executable, "-m", "emberq", "namesrv", "--port", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(tmp_path), "EMBERQ_LOOP": loop},
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(how)
        rest, log = process.communicate(timeout=20)

    start = "The Name Server boot success. serializeType=JSON, address 0.0.0.0:"
    assert line.startswith(start)
    assert line.removeprefix(start).strip().isdigit()
    assert rest == ""
    assert process.returncode == 0
    assert [entry.split()[-1] for entry in log.splitlines()] == [
        "name_server_stopping",
        "name_server_stopped",
    ]


async def test_a_stop_answers_what_is_under_way(tmp_path: Path) -> None:
    with run_name_server(tmp_path) as server:
        async with connected(server.host, server.port) as client:
            assert (await client.call(PUT, ENTRY)).code == 0

            assert server.stop() == 0

    assert server.key_value_file.read_bytes() == b'{"configTable":{"n":{"k":"v"}}}'


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with (
            pytest.raises(EmberqError) as caught,
            run_name_server(tmp_path, port=port) as server,
        ):
            server.stop()

    said = str(caught.value).removeprefix("emberq did not start: ")
    assert said.startswith(f"emberq: cannot listen on 127.0.0.1:{port}: ")
    assert said.lower().endswith("address already in use\n")
    assert said.count("\n") == 1


def test_a_warning_about_unknown_keys_does_not_stop_it(tmp_path: Path) -> None:
    with run_name_server(tmp_path, config={"listenPrt": "1"}) as server:
        assert "unknown key listenPrt has no effect; did you mean listenPort?" in server.log()


async def test_two_name_servers_side_by_side_know_nothing_of_each_other(tmp_path: Path) -> None:
    with run_name_server(tmp_path / "a") as a, run_name_server(tmp_path / "b") as b:
        async with connected(a.host, a.port) as to_a, connected(b.host, b.port) as to_b:
            await to_a.register(Broker(), TOPICS)
            assert (await to_a.route("T1")).code == 0
            assert (await to_b.route("T1")).code == ResponseCode.TOPIC_NOT_EXIST

            await to_b.register(Broker(), TOPICS)
            await to_b.call(PUT, ENTRY)
            assert (await to_a.call(GET, ENTRY)).code == ResponseCode.QUERY_NOT_FOUND
            assert a.stop() == 0

            assert (await to_b.route("T1")).code == 0


async def test_an_update_is_stored_in_its_file_and_in_force_after_a_restart(
    tmp_path: Path,
) -> None:
    config = {"tls.server.mode": "permissive", "enableAllTopicList": "true"}
    update = b"enableAllTopicList=false\nproductEnvName=a\\\\b\n"
    with run_name_server(tmp_path, config=config) as server:
        async with connected(server.host, server.port) as client:
            assert (await client.call(RequestCode.UPDATE_NAMESRV_CONFIG, body=update)).code == 0
            assert (await client.call(206)).remark == "disable"
            shown = (await client.call(RequestCode.GET_NAMESRV_CONFIG)).body

    assert b"tls.server.mode=permissive\n" in server.config_file.read_bytes()
    with run_name_server(tmp_path) as again:
        async with connected(again.host, again.port) as client:
            assert (await client.call(206)).remark == "disable"
            assert (await client.call(RequestCode.GET_NAMESRV_CONFIG)).body == shown
            assert b"productEnvName=a\\b\n" in shown


async def test_stored_values_are_there_after_a_restart(tmp_path: Path) -> None:
    with run_name_server(tmp_path) as server:
        async with connected(server.host, server.port) as client:
            await client.call(PUT, ENTRY)

    with run_name_server(tmp_path) as again:
        async with connected(again.host, again.port) as client:
            assert (await client.call(GET, ENTRY)).fields == {"value": "v"}
