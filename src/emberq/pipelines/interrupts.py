"""Ctrl-C: a program that ends in its own way while who started it waits, and calls of Spark that
are broken off quietly."""

import logging
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType

from emberq.pipelines.job import Say

Handler = Callable[[int, FrameType | None], None]

# Of a program that a signal ended, as shells have it.
_SIGNALLED = 128


def run_to_its_end(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Path | None,
    say: Say,
    *,
    is_shielded: bool,
) -> int:
    """The exit code of a program. Ctrl-C is waited through, a second one ends the program, and so
    does who wants this process to end.

    Args:
        is_shielded: Ctrl-C is not for the program itself, but for who below it listens. Another one
            ends with it, and says so itself.
    """
    if current_thread() is not main_thread():  # others get no signals
        return subprocess.run(command, env=environ, cwd=folder, check=False).returncode
    signals = _Signals(say if is_shielded else lambda _: None)
    # A program begins with what is ignored here, and with nothing that is handled here.
    before = {
        signal.SIGINT: signal.signal(
            signal.SIGINT, signal.SIG_IGN if is_shielded else signals.interrupt
        ),
        signal.SIGTERM: signal.signal(signal.SIGTERM, signals.terminate),
    }
    try:
        with subprocess.Popen(command, env=environ, cwd=folder) as process:
            signals.process = process
            signal.signal(signal.SIGINT, signals.interrupt)
            code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
    return code if code >= 0 else _SIGNALLED - code


@contextmanager
def quiet_interrupts() -> Iterator[None]:
    """Ctrl-C raises and nothing else, in a session that is there. PySpark's own handler calls the
    JVM in the middle of a call to it, which fails, and py4j logs both with their traces.

    The call that is broken off may take the connection to the JVM along: then cleaning up fails,
    and what is raised is the interrupt all the same."""
    is_interrupted = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        logging.disable(logging.ERROR)
        raise KeyboardInterrupt

    with interrupts_to(interrupt):
        try:
            yield
        except Exception as error:
            if is_interrupted:
                raise KeyboardInterrupt from error
            raise
        finally:
            logging.disable(logging.NOTSET)


@contextmanager
def interrupts_to(handler: Handler) -> Iterator[None]:
    """Ctrl-C is for this one; in other threads than the main one nothing changes, as they get no
    signals."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


class _Signals:
    """What reaches this process while it waits for another one."""

    def __init__(self, say: Say) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._say = say
        self._is_interrupted = False

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._is_interrupted:
            self.terminate(number, frame)
        else:
            self._is_interrupted = True
            self._say("stopping; Ctrl-C once more does not wait for the job")

    def terminate(self, _number: int, _frame: FrameType | None) -> None:
        if self.process is not None:
            self.process.terminate()
