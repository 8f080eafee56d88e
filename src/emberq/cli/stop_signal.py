"""How a server learns that it should stop."""

import asyncio
import signal


def stop_requested() -> asyncio.Event:
    """An event that is set by Ctrl-C or a request to terminate."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(name, stopped.set)
        except NotImplementedError:  # Windows: Ctrl-C ends the process
            break
    return stopped
