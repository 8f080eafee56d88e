"""Clients of this process: one per set of connection options, made on first use and kept.

Spark runs planner, stream readers and tasks in processes that live on, so that a connection serves
many batches. A process that was forked makes its own.
"""

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from emberq.client.aio.client import Client
from emberq.client.aio.scans import Scans
from emberq.client.blocking.loop_thread import LoopThread
from emberq.client.credentials import Credentials
from emberq.errors import BrokerNotFound, NoNameServer, RemotingError, SystemBusy
from emberq.model.queue import MessageQueue
from emberq.spark.options import ConnectionOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_PAUSE_FIRST_S = 0.1
RETRY_PAUSE_MAX_S = 2.0
# No call of a driver may hang: Spark has no deadline of its own.
CALL_MAX_S = 60.0
_WORTH_A_RETRY = (RemotingError, BrokerNotFound, NoNameServer, SystemBusy)

_links: dict[tuple[int, ConnectionOptions], "Link"] = {}
_making = threading.Lock()


def link_to(options: ConnectionOptions) -> "Link":
    """The client for these options, started. Raises NoNameServer, ClientError."""
    key = (os.getpid(), options)
    with _making:
        link = _links.get(key)
        if link is None:
            link = _links[key] = Link(options)
            atexit.register(link.close)
        return link


class Link:
    """A client on a loop of its own, for threads."""

    def __init__(self, options: ConnectionOptions) -> None:
        has_credentials = bool(options.access_key)
        self._thread = LoopThread()
        self.client = Client(
            options.name_server,
            credentials=Credentials(options.access_key, options.secret_key)
            if has_credentials
            else None,
            tls=options.is_tls,
            namespace=options.namespace,
        )
        self.scans = Scans(self.client)
        self._thread.run(self.client.start())

    def close(self) -> None:
        self._thread.run(self.client.close())
        self._thread.stop()

    def run(self, work: Callable[[], Awaitable[T]], retries: int) -> T:
        """Wait for work on the loop; failures of the network are tried again, up to a deadline."""

        async def bounded() -> T:
            async with asyncio.timeout(CALL_MAX_S):
                return await retried(work, retries)

        return self._thread.run(bounded())

    def know(self, topic: str, retries: int) -> None:
        """Have the addresses of a topic's brokers; its name is as on the wire."""
        self.run(lambda: self.scans.queues(topic, is_fresh=False), retries)

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin work on the loop; whoever asks bounds it himself."""
        return self._thread.submit(work)

    def on_loop(self, call: Callable[[], object]) -> None:
        """Have the loop call something soon."""
        self._thread.call_soon(call)

    # Names: users never see the namespace, the wire always does

    def wrapped(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(queue.broker_name, queue.queue_id, self.client.wrap(queue.topic))

    def unwrapped(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(queue.broker_name, queue.queue_id, self.client.unwrap(queue.topic))


async def retried(work: Callable[[], Awaitable[T]], retries: int) -> T:
    """Try again what may be better in a moment."""
    pause_s = RETRY_PAUSE_FIRST_S
    for attempt in range(retries):
        try:
            return await work()
        except _WORTH_A_RETRY as error:
            log.info("scan_retried attempt=%d reason=%s", attempt + 1, error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, RETRY_PAUSE_MAX_S)
    return await work()
