"""A server whose only handler gives back what it gets: what the network layer costs by itself."""

import asyncio
import sys

from benchmarks.workload import ECHO_CODE
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.event_loop import run
from emberq.remoting.registry import HandlerRegistry
from emberq.remoting.server import listening


def echo(request: Command, _: Connection) -> Command:
    return answer(request, body=request.body)


async def serve(port: int) -> None:
    registry = HandlerRegistry()
    registry.add(ECHO_CODE, echo)
    async with listening(Endpoint(registry), "127.0.0.1", port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    run(serve(int(sys.argv[1])))
