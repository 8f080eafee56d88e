"""A Python process of Spark's, for which a JVM that has hung up is no failure.

The JVM hangs up on a worker when a query has the rows that it wants (`show`, `limit`), and on the
process of a stream when the query ends. Spark's own processes write traces of calls to the terminal
then, not always, which mean nothing and frighten people.

Run with a module of Spark's and its arguments, instead of that module.
"""

import functools
import os
import sys
from collections.abc import Callable
from runpy import run_module
from socket import socket
from typing import Any

DAEMON = "pyspark.daemon"

Serve = Callable[[socket, bool], int]
Tell = Callable[..., None]


def ends_quietly(serve: Serve) -> Serve:
    """`serve` handles the tasks of one connection and returns its exit code."""

    @functools.wraps(serve)
    def serve_quietly(connection: socket, is_known: bool) -> int:
        try:
            return serve(connection, is_known)
        except (BrokenPipeError, ConnectionResetError):
            return 1  # as a worker that cannot be used again

    return serve_quietly


def leaves_at_once(tell: Tell) -> Tell:
    """`tell` lets the JVM know of an exception."""

    @functools.wraps(tell)
    def tell_or_leave(error: BaseException, *rest: Any, **more: Any) -> None:
        if is_hang_up(error):
            sys.stdout.flush()
            sys.stderr.flush()
            # Nobody waits: that Python takes itself apart would cost a tenth of a second.
            os._exit(0)
        tell(error, *rest, **more)

    return tell_or_leave


def is_hang_up(error: BaseException) -> bool:
    """Whether the JVM's next call was waited for in vain, and not what others read."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        isinstance(error, EOFError)
        and trace is not None
        and trace.tb_frame.f_code.co_name == "read_int"
        and trace.tb_frame.f_globals.get("__name__") == "pyspark.serializers"
    )


def main() -> None:
    # By their names: functions of modules that types do not let anybody replace.
    from pyspark import util  # noqa: PLC0415 - of the PySpark that is found here

    setattr(util, "handle_worker_exception", leaves_at_once(util.handle_worker_exception))  # noqa: B010
    module = sys.argv.pop(1)
    if module != DAEMON:
        run_module(module, run_name="__main__", alter_sys=True)
        return
    from pyspark import daemon  # noqa: PLC0415

    setattr(daemon, "worker", ends_quietly(daemon.worker))  # noqa: B010
    daemon.manager()


if __name__ == "__main__":
    main()
