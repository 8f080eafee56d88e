"""Servers and connections for tests, on free ports, gone when the test is."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint, OnConnection
from emberq.remoting.hooks import CallHook
from emberq.remoting.limits import RemotingLimits
from emberq.remoting.registry import AsyncHandler, HandlerRegistry, PlainHandler
from emberq.remoting.server import listening
from emberq.remoting.tls import ServerTls

Address = tuple[str, int]

# What the codes mean officially is of no concern to the network layer.
ECHO = RequestCode.HEART_BEAT
WORK = RequestCode.PULL_MESSAGE


def echo(command: Command, connection: Connection) -> Command:
    """Fields and body back to whoever sent them."""
    return answer(command, fields=command.fields, body=command.body)


def registry_of(
    handlers: dict[RequestCode, PlainHandler | AsyncHandler] | None = None,
) -> HandlerRegistry:
    """Echo, and what else is asked for."""
    registry = HandlerRegistry()
    for code, handler in ({ECHO: echo} | (handlers or {})).items():
        registry.add(code, handler)
    return registry


def endpoint_of(
    handlers: dict[RequestCode, PlainHandler | AsyncHandler] | None = None,
    *,
    hooks: tuple[CallHook, ...] = (),
    tls: ServerTls | None = None,
    on_open: OnConnection = lambda connection: None,
    on_close: OnConnection = lambda connection: None,
    **limits: Any,
) -> Endpoint:
    """The limits have their defaults, but on a busy machine a turn may take long."""
    return Endpoint(
        registry_of(handlers),
        hooks=hooks,
        tls=tls,
        on_open=on_open,
        on_close=on_close,
        limits=RemotingLimits(**({"work_per_turn_max_ms": 60_000.0} | limits)),
    )


@asynccontextmanager
async def serving(endpoint: Endpoint) -> AsyncIterator[Address]:
    async with listening(endpoint, "127.0.0.1", 0) as address:
        yield address


@asynccontextmanager
async def connected(
    address: Address, endpoint: Endpoint | None = None, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Connection]:
    connection = await connect(*address, endpoint or Endpoint(), tls=tls)
    try:
        yield connection
    finally:
        connection.abort()
        await connection.closed
