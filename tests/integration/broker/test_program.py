"""`emberq broker` as its users run it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from emberq.errors import EmberqError
from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import connected, run_name_server
from tests.integration.nameserver.running import eventually
from tests.interop.harness.ports import broker_port, free_port

pytestmark = pytest.mark.integration


def emberq(*options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "emberq", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "NAMESRV_ADDR": "", **environment},
    )


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


async def test_a_killed_broker_starts_again_on_its_store(tmp_path: Path) -> None:
    with run_name_server(tmp_path / "names") as names:
        async with connected(names.host, names.port) as client:
            with run_broker(tmp_path / "broker", name_servers=names.address) as broker:
                broker.kill()
            was_marked = (broker.store / "abort").exists()

            async def is_gone() -> bool:
                return (await client.route("TBW102")).code == 17

            await eventually(is_gone)
            with run_broker(tmp_path / "broker", name_servers=names.address) as again:
                route = await client.route("TBW102")

    assert was_marked
    assert again.address.encode() in route.body
    assert "clean=False" in again.log()
    assert not (broker.store / "abort").exists()


async def test_a_dead_name_server_among_two_is_no_trouble(tmp_path: Path) -> None:
    dead_port = free_port()
    dead = f"127.0.0.1:{dead_port}"
    with run_name_server(tmp_path / "names") as names:
        both = f"{dead};{names.address}"
        async with connected(names.host, names.port) as client:
            with run_broker(tmp_path / "broker", name_servers=both) as broker:
                route = await client.route("TBW102")
                with run_name_server(tmp_path / "late", port=dead_port) as late:
                    async with connected(late.host, late.port) as late_client:

                        async def is_known() -> bool:
                            return (await late_client.route("TBW102")).code == 0

                        await eventually(is_known)
                log = broker.log()

    assert broker.address.encode() in route.body
    assert log.count("registration_failed") == 1


def test_the_name_servers_may_come_from_the_environment(tmp_path: Path) -> None:
    with (
        run_name_server(tmp_path / "names") as names,
        run_broker(tmp_path / "broker", environment={"NAMESRV_ADDR": names.address}) as broker,
    ):
        pass

    assert broker.program.ready[4] == names.address


def test_a_second_broker_on_the_same_store_is_refused(tmp_path: Path) -> None:
    with run_broker(tmp_path) as broker:
        with pytest.raises(EmberqError) as refused, run_broker(tmp_path):
            pytest.fail("it is running")
        is_unharmed = broker.program.process.poll() is None

    assert f"emberq: {broker.store} is in use by another process\n" in str(refused.value)
    assert is_unharmed


def test_a_taken_port_is_one_line_and_leaves_the_store_alone(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = emberq(
            "broker", "--host", "127.0.0.1", "--port", str(port), "--store", f"{tmp_path}/s"
        )

    assert done.returncode == 1
    assert done.stderr.endswith(
        f"emberq: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "s").exists()


def test_the_second_port_is_two_below(tmp_path: Path) -> None:
    port = broker_port()
    with (
        run_broker(tmp_path, port=port) as broker,
        socket.create_connection((broker.host, port), timeout=5),
        socket.create_connection((broker.host, port - 2), timeout=5),
    ):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    done = emberq("broker", "--port", "0", "--store", str(tmp_path / "store"))

    assert done.returncode == 1
    assert done.stderr.endswith("Permission denied\n")
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")

    done = emberq("broker", "--host", "127.0.0.1", "--port", "0", "--store", f"{tmp_path}/store")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"emberq: {tmp_path}/store: File exists"
    assert "Traceback" not in done.stderr


def test_damaged_tables_are_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "config"
    folder.mkdir(parents=True)
    (folder / "topics.json").write_text("{")

    done = emberq("broker", "--host", "127.0.0.1", "--port", "0", "--store", f"{tmp_path}/store")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"emberq: {folder}/topics.json cannot be read")
    assert "Traceback" not in done.stderr


def test_an_unknown_key_is_a_warning_and_strictly_a_refusal(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerNam=b\n")

    printed = emberq("broker", "-c", str(file), "-m")
    refused = emberq("broker", "-c", str(file), "--strict-config")

    said = "unknown key brokerNam has no effect; did you mean brokerName?"
    assert printed.stderr == f"warning: {said}\n"
    assert refused.returncode == 1
    assert refused.stderr == f"emberq: {said}\n"


def test_keys_are_printed_and_nothing_is_started(tmp_path: Path) -> None:
    everything = emberq("broker", "-p", "--store", str(tmp_path / "store"), "-n", "a:1")
    important = emberq("broker", "-m", ROCKETMQ_HOME="/opt/mq")

    keys = dict(line.split("=", 1) for line in everything.stdout.splitlines())
    assert keys["storePathRootDir"] == str(tmp_path / "store")
    assert keys["namesrvAddr"] == "a:1"
    assert keys["listenPort"] == "10911"
    assert "brokerClusterName=DefaultCluster\n" in important.stdout
    assert len(important.stdout.splitlines()) < 20
    assert not (tmp_path / "store").exists()
