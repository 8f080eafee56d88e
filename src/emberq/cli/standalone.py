"""`emberq standalone`: a name server and brokers on one machine, ready for a first message."""

import asyncio
import logging
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from emberq.broker.config import load as load_broker
from emberq.broker.server import running_broker
from emberq.cli.data_folder import user_data_folder
from emberq.cli.descriptors import raise_descriptor_limit
from emberq.cli.garbage import collect_garbage_as_server
from emberq.cli.interpreter import share_interpreter_as_server
from emberq.cli.logs import log_to_stderr
from emberq.cli.stop_signal import cancelled_by, stop_requested
from emberq.config_file import to_file
from emberq.errors import ConfigError, StoreError
from emberq.nameserver.config import load as load_name_server
from emberq.nameserver.server import running_name_server
from emberq.remoting.event_loop import run

log = logging.getLogger(__name__)

BROKERS_MAX = 26  # broker-a to broker-z
PORT_DISTANCE = 10
# A segment is reserved on disk as a whole: a gigabyte each would be much for a laptop.
SEGMENT_SIZE_BYTES = 256 * 1024 * 1024
BOOT_LINE = re.compile(r"The broker\[(\S+), (\S+)\] boot success\..*\n")


@click.command()
@click.option(
    "--brokers",
    "broker_count",
    type=click.IntRange(1, BROKERS_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Run N brokers, each a process of its own if there are several.",
)
@click.option(
    "--data",
    "data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep everything in DIR instead of the user's data folder.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="IP",
    help="Listen on this address and tell clients to come there.",
)
@click.option(
    "--namesrv-port", type=int, default=9876, show_default=True, metavar="PORT", help="Name server."
)
@click.option(
    "--port",
    type=int,
    default=10_911,
    show_default=True,
    metavar="PORT",
    help="The first broker; the next ones follow at a distance of 10.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
)
def standalone(
    *,
    broker_count: int,
    data: Path | None,
    host: str,
    namesrv_port: int,
    port: int,
    log_level: str,
) -> None:
    """Start a name server and brokers for this machine.

    Messages, topics and offsets are still there at the next start.
    """
    folder = (data or user_data_folder()).absolute()
    ports = [port + PORT_DISTANCE * number if port else 0 for number in range(broker_count)]
    if ports[-1] > 65_535:
        raise ConfigError(f"--port {port}: no room for {broker_count} brokers")
    log_to_stderr(log_level)
    raise_descriptor_limit()
    try:
        run(_serve(folder, host, namesrv_port, ports, log_level))
    except OSError as error:
        raise StoreError(f"{error.filename or folder}: {error.strerror or error}") from error


async def _serve(
    folder: Path, host: str, namesrv_port: int, ports: list[int], log_level: str
) -> None:
    stopped = stop_requested()
    try:
        with cancelled_by(stopped) as started:
            async with _running(folder, host, namesrv_port, ports, log_level) as (names, running):
                started()
                collect_garbage_as_server()
                share_interpreter_as_server()
                _say_welcome(folder, names, running)
                await stopped.wait()
                click.echo("stopping …")
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
        click.echo("stopped before it was started")


@asynccontextmanager
async def _running(
    folder: Path, host: str, namesrv_port: int, ports: list[int], log_level: str
) -> AsyncIterator[tuple[str, list[str]]]:
    """Address of the name server, and names and addresses of the brokers."""
    async with _name_server(folder / "namesrv", host, namesrv_port) as names:
        brokers = {
            _broker_file(folder / f"broker-{chr(ord('a') + number)}"): port
            for number, port in enumerate(ports)
        }
        runs = _one_broker if len(ports) == 1 else _several_brokers
        async with runs(brokers, host, names, log_level) as running:
            yield names, running


@asynccontextmanager
async def _name_server(folder: Path, host: str, port: int) -> AsyncIterator[str]:
    overrides = {"bindAddress": host, "listenPort": str(port)}
    file = _config_file(folder, "namesrv.conf", {"kvConfigPath": str(folder / "kvConfig.json")})
    loaded = load_name_server(file, overrides, os.environ)
    async with running_name_server(
        loaded.config, loaded.tls, kept_properties=loaded.kept_properties
    ) as (name, listen_port):
        yield f"{name}:{listen_port}"


def _broker_file(home: Path) -> Path:
    keys = {
        "brokerName": home.name,
        "enablePropertyFilter": "true",
        "mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES),
        "storePathRootDir": str(home / "store"),
    }
    return _config_file(home, "broker.conf", keys)


def _config_file(home: Path, name: str, keys: dict[str, str]) -> Path:
    """A configuration that is made at the first start and the user's from then on."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / name
    if not file.exists():
        file.write_bytes(to_file(keys))
    return file


@asynccontextmanager
async def _one_broker(
    brokers: dict[Path, int], host: str, names: str, _: str
) -> AsyncIterator[list[str]]:
    ((file, port),) = brokers.items()
    overrides = {
        "bindAddress": host,
        "brokerIP1": host,
        "listenPort": str(port),
        "namesrvAddr": names,
    }
    loaded = load_broker(file, overrides, os.environ)
    for warning in loaded.warnings:
        log.warning("config %s", warning)
    async with running_broker(loaded) as running:
        yield [f"{loaded.config.broker_name} {running.addresses.main}"]


@asynccontextmanager
async def _several_brokers(
    brokers: dict[Path, int], host: str, names: str, log_level: str
) -> AsyncIterator[list[str]]:
    from emberq.cli.supervisor import Program, supervised  # noqa: PLC0415 - one broker needs none

    programs = [
        Program(
            name=file.parent.name,
            command=[
                *(sys.executable, "-m", "emberq", "broker", "-c", str(file), "-n", names),
                *("--host", host, "--port", str(port), "--log-level", log_level),
                "--stop-with-stdin",
            ],
            ready_line=BOOT_LINE,
        )
        for file, port in brokers.items()
    ]

    def pass_on(name: str, line: str) -> None:
        click.echo(f"[{name}] {line}", err=True, nl=False)

    async with supervised(programs, pass_on) as children:
        yield [f"{child.ready[1]} {child.ready[2]}" for child in children if child.ready]


def _say_welcome(folder: Path, names: str, brokers: list[str]) -> None:
    click.echo(f"EmberQ runs. Name server {names}; brokers: {', '.join(brokers)}")
    click.echo(f"Data in {folder}; Ctrl-C stops everything, and nothing is lost by it.")
    click.echo("")
    click.echo("A first message, sent and read back, from another terminal:")
    click.echo(f"  {_python()} -m emberq.testing.first_message {names}")
    click.echo(f'Official clients: setNamesrvAddr("{names}"); mqadmin: -n {names}')
    click.echo("No web console is installed; it will come as the extra emberq[console].")


def _python() -> str:
    """How a user would call this Python from where he is."""
    executable = Path(sys.executable)
    here = Path.cwd()
    return str(executable.relative_to(here) if executable.is_relative_to(here) else executable)
