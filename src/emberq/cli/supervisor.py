"""Runs several programs as one: starts them, starts them again when they end, stops them in order.

A program is ready when a line of its output says so, and stops when its standard input ends: then
none of them outlives the supervisor, however that one ended.
"""

import asyncio
import logging
import re
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from emberq.errors import EmberqError

log = logging.getLogger(__name__)

READY_MAX_S = 600.0  # a long recovery is no failure
STOP_MAX_S = 30.0
RESTART_FIRST_S = 1.0
RESTART_MAX_S = 30.0
# A program that ran this long and ended is not taken for one that ends at once.
STEADY_S = 60.0
LINE_MAX_BYTES = 64 * 1024


class Program(Struct, frozen=True, kw_only=True):
    """A command line, and the line by which it says that it is ready."""

    name: str
    command: Sequence[str]
    ready_line: "re.Pattern[str]"


class Supervised:
    """One program: a process while it runs, a pause when it ended."""

    def __init__(self, program: Program, say: Callable[[str, str], None]) -> None:
        self.program = program
        self.restarts = 0
        self.ready: re.Match[str] | None = None  # the line of the last start
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._pause_s = RESTART_FIRST_S

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def start(self) -> None:
        """Run it until it is ready; from then on it is started again when it ends.

        Raises:
            EmberqError: it ended before it was ready.
        """
        if not await self._run():
            raise EmberqError(f"{self.program.name} did not start; its output says why")
        self._watch = asyncio.get_running_loop().create_task(self._keep_running())

    async def stop(self) -> None:
        """Ask it to stop, and end it if it does not in time."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_MAX_S):
                await process.wait()
        except TimeoutError:
            log.error("program_killed name=%s reason=did not stop in time", self.program.name)  # noqa: TRY400
            process.kill()
            await process.wait()

    async def _run(self) -> bool:
        """Whether it became ready."""
        self._process = process = await asyncio.create_subprocess_exec(
            *self.program.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=LINE_MAX_BYTES,
            start_new_session=True,  # Ctrl-C is for the supervisor, which stops them in order
        )
        ready: asyncio.Future[re.Match[str] | None] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.get_running_loop().create_task(self._read(process, ready))
        try:
            async with asyncio.timeout(READY_MAX_S):
                self.ready = await ready
        except TimeoutError:
            process.kill()
            return False
        return self.ready is not None

    async def _read(
        self,
        process: asyncio.subprocess.Process,
        ready: "asyncio.Future[re.Match[str] | None]",
    ) -> None:
        """Pass on what it says; its ready line goes to who waits for it."""
        assert process.stdout is not None
        while True:
            try:
                line = (await process.stdout.readline()).decode(errors="replace")
            except ValueError:  # longer than any line should be: skipped
                continue
            if not line:
                break
            match = self.program.ready_line.fullmatch(line)
            if match is not None and not ready.done():
                ready.set_result(match)
            else:
                self._say(self.program.name, line)
        if not ready.done():
            ready.set_result(None)

    async def _keep_running(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            assert self._process is not None
            code = await self._process.wait()
            if loop.time() - began >= STEADY_S:
                self._pause_s = RESTART_FIRST_S
            log.error(
                "program_ended name=%s code=%d again_in_s=%g",
                self.program.name,
                code,
                self._pause_s,
            )
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(self._pause_s * 2, RESTART_MAX_S)
            self.restarts += 1
            if await self._run():
                log.info("program_back name=%s pid=%s", self.program.name, self.pid)


@asynccontextmanager
async def supervised(
    programs: Sequence[Program], say: Callable[[str, str], None]
) -> AsyncIterator[list[Supervised]]:
    """Run programs until the block ends: all start together, and stop one after the other, the
    last one first. `say(name, line)` gets what they write.

    Raises:
        EmberqError: one of them ended before it was ready; none is left running.
    """
    children = [Supervised(program, say) for program in programs]
    try:
        try:
            async with asyncio.TaskGroup() as starting:
                for child in children:
                    starting.create_task(child.start())
        except* EmberqError as failures:
            raise failures.exceptions[0] from None
        yield children
    finally:  # also when a start is cancelled: what has begun is stopped
        await _stop_all(children)


async def _stop_all(children: Sequence[Supervised]) -> None:
    for child in reversed(children):
        await child.stop()
