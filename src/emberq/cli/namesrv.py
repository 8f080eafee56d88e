"""`emberq namesrv`: a name server."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from emberq.cli.garbage import collect_garbage_as_server
from emberq.cli.interpreter import share_interpreter_as_server
from emberq.cli.logs import log_to_stderr
from emberq.cli.stop_signal import stop_requested
from emberq.config_file import to_properties
from emberq.errors import ConfigError
from emberq.nameserver.config import LoadedConfig, load
from emberq.nameserver.handlers.routes import AskElsewhere
from emberq.nameserver.server import running_name_server
from emberq.remoting.event_loop import run

log = logging.getLogger(__name__)


@click.command()
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read namesrv.conf keys from FILE; updates by tools are stored there too.",
)
@click.option("-p", "--print", "prints", is_flag=True, help="Print every effective key and exit.")
@click.option(
    "-n",
    "--namesrv-addr",
    metavar="HOST:PORT;…",
    help="Name servers of the product environment, asked in cluster-test mode.",
)
@click.option("--port", type=int, metavar="PORT", help="Listen here instead of listenPort (9876).")
@click.option("--strict-config", is_flag=True, help="Refuse to start with unknown keys.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def namesrv(
    *,
    config_file: Path | None,
    prints: bool,
    namesrv_addr: str | None,
    port: int | None,
    strict_config: bool,
    log_level: str,
) -> None:
    """Start a name server.

    Brokers register here, clients and tools ask here where topics live. Official brokers, clients
    and mqadmin use it unchanged.
    """
    overrides = {} if port is None else {"listenPort": str(port)}
    loaded = load(config_file, overrides, os.environ)
    if strict_config and loaded.warnings:
        raise ConfigError("; ".join(loaded.warnings))
    if prints:
        for warning in loaded.warnings:
            click.echo(f"warning: {warning}", err=True)
        for name, value in sorted(to_properties(loaded.config).items()):
            click.echo(f"{name}={value}")
        return
    log_to_stderr(log_level)
    for warning in loaded.warnings:
        log.warning("config %s", warning)
    run(_serve(loaded, (namesrv_addr or "").replace(",", ";").split(";")))


async def _serve(loaded: LoadedConfig, elsewhere: list[str]) -> None:
    stopped = stop_requested()
    async with (
        _product_environment(loaded, [address for address in elsewhere if address]) as ask,
        running_name_server(
            loaded.config,
            loaded.tls,
            kept_properties=loaded.kept_properties,
            ask_elsewhere=ask,
        ) as (host, port),
    ):
        collect_garbage_as_server()
        share_interpreter_as_server()
        click.echo(f"The Name Server boot success. serializeType=JSON, address {host}:{port}")
        await stopped.wait()
        log.info("name_server_stopping")
    log.info("name_server_stopped")


@asynccontextmanager
async def _product_environment(
    loaded: LoadedConfig, addresses: list[str]
) -> AsyncIterator[AskElsewhere | None]:
    if not loaded.config.cluster_test:
        yield None
        return
    from emberq.nameserver.product_environment import (  # noqa: PLC0415 - one mode only
        ProductEnvironment,
    )
    from emberq.remoting.address_lookup import lookup_url  # noqa: PLC0415 - one mode only

    url = lookup_url(
        os.environ.get("ROCKETMQ_NAMESRV_DOMAIN", "jmenv.tbsite.net"),
        os.environ.get("ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP", "nsaddr"),
        loaded.config.product_env_name,
    )
    environment = ProductEnvironment(addresses, url)
    try:
        yield environment.route_body
    finally:
        environment.close()
