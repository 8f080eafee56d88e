"""`emberq broker`: a broker."""

import asyncio
import logging
import os
from pathlib import Path

import click

from emberq.broker.config import LoadedConfig, load
from emberq.broker.server import running_broker
from emberq.cli.descriptors import raise_descriptor_limit
from emberq.cli.garbage import collect_garbage_as_server
from emberq.cli.interpreter import share_interpreter_as_server
from emberq.cli.logs import log_to_stderr
from emberq.cli.stop_signal import cancelled_by, stop_requested
from emberq.config_file import to_properties
from emberq.errors import ConfigError, StoreError
from emberq.remoting.event_loop import run

log = logging.getLogger(__name__)

# What operators ask for first; the official `-m`.
IMPORTANT_KEYS = (
    *("brokerClusterName", "brokerName", "brokerId", "brokerRole", "namesrvAddr", "brokerIP1"),
    *("listenPort", "storePathRootDir", "flushDiskType", "autoCreateTopicEnable"),
    *("autoCreateSubscriptionGroup", "deleteWhen", "fileReservedTime", "maxMessageSize"),
)


@click.command()
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read broker.conf keys from FILE; updates by tools are stored there too.",
)
@click.option(
    "-n",
    "--namesrv-addr",
    metavar="HOST:PORT;…",
    help="Name servers to register with; more than NAMESRV_ADDR and the file.",
)
@click.option("-p", "--print", "prints", is_flag=True, help="Print every effective key and exit.")
@click.option("-m", "--print-important", is_flag=True, help="Print the important keys and exit.")
@click.option("--host", metavar="IP", help="Listen on this address and tell clients to come there.")
@click.option("--port", type=int, metavar="PORT", help="Listen here instead of listenPort (10911).")
@click.option(
    "--store",
    "store_path",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep messages here instead of storePathRootDir (~/store).",
)
@click.option(
    "--stop-with-stdin", is_flag=True, help="Stop when standard input ends; supervisors use it."
)
@click.option("--strict-config", is_flag=True, help="Refuse to start with unknown keys.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def broker(
    *,
    config_file: Path | None,
    namesrv_addr: str | None,
    prints: bool,
    print_important: bool,
    host: str | None,
    port: int | None,
    store_path: Path | None,
    stop_with_stdin: bool,
    strict_config: bool,
    log_level: str,
) -> None:
    """Start a broker.

    It stores messages and serves producers, consumers and mqadmin of the official software.
    """
    options = {
        "namesrvAddr": namesrv_addr,
        "bindAddress": host,
        "brokerIP1": host,
        "listenPort": None if port is None else str(port),
        "storePathRootDir": None if store_path is None else str(store_path.absolute()),
    }
    overrides = {key: text for key, text in options.items() if text is not None}
    loaded = load(config_file, overrides, os.environ)
    if strict_config and loaded.warnings:
        raise ConfigError("; ".join(loaded.warnings))
    if prints or print_important:
        _print_keys(loaded, important_only=not prints)
        return
    log_to_stderr(log_level)
    for warning in loaded.warnings:
        log.warning("config %s", warning)
    for note in loaded.notes:
        log.info("config %s", note)
    raise_descriptor_limit()
    try:
        run(_serve(loaded, stop_with_stdin=stop_with_stdin))
    except OSError as error:
        raise StoreError(f"{loaded.store.root}: {error.strerror or error}") from error


def _print_keys(loaded: LoadedConfig, *, important_only: bool) -> None:
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    values = {**to_properties(loaded.config), **to_properties(loaded.store)}
    for name in IMPORTANT_KEYS if important_only else sorted(values):
        click.echo(f"{name}={values.get(name, '')}")


async def _serve(loaded: LoadedConfig, *, stop_with_stdin: bool) -> None:
    stopped = stop_requested(with_stdin=stop_with_stdin)
    try:
        with cancelled_by(stopped) as started:
            async with running_broker(loaded) as running:
                started()
                await _run(loaded, running.addresses.main, stopped)
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
        log.info("broker_stopped reason=before it was started")
    else:
        log.info("broker_stopped")


async def _run(loaded: LoadedConfig, address: str, stopped: asyncio.Event) -> None:
    collect_garbage_as_server()
    share_interpreter_as_server()
    name_servers = loaded.config.namesrv_addr
    known_to = f" and name server is {name_servers}" if name_servers else ""
    click.echo(
        f"The broker[{loaded.config.broker_name}, {address}] boot success. "
        f"serializeType=JSON{known_to}"
    )
    await stopped.wait()
    log.info("broker_stopping")
