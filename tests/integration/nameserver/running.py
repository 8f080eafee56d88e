"""Name servers on the test's own loop, and waiting for what they do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from emberq.nameserver.config import load
from emberq.nameserver.server import running_name_server
from emberq.testing.local_nameserver import RawClient, connected

DEADLINE_S = 45.0
_POLL_S = 0.005


@asynccontextmanager
async def name_server(home: Path, **properties: str) -> AsyncIterator[tuple[str, int]]:
    """A name server with these keys in its file; yields where it listens."""
    file = home / "namesrv.conf"
    lines = [f"{name}={text}\n" for name, text in properties.items()]
    file.write_text("".join(["bindAddress=127.0.0.1\nlistenPort=0\n", *lines]))
    loaded = load(file, {}, {"HOME": str(home)})
    async with running_name_server(
        loaded.config, loaded.tls, kept_properties=loaded.kept_properties
    ) as address:
        yield address


@asynccontextmanager
async def served(home: Path, **properties: str) -> AsyncIterator[RawClient]:
    """A client of a name server with these keys."""
    async with name_server(home, **properties) as address, connected(*address) as client:
        yield client


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await is_so():  # noqa: ASYNC110 - the server has no event for us
            await asyncio.sleep(_POLL_S)


async def until_route_is(client: RawClient, topic: str, code: int) -> None:
    async def has_code() -> bool:
        return (await client.route(topic)).code == code

    await eventually(has_code)
