"""Clients of this process: one per set of connection options, made on first use and kept.

Spark runs planner, stream readers and tasks in processes that live on, so that a connection serves
many batches. A process that was forked makes its own.
"""

import asyncio
import atexit
import itertools
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from emberq.client.aio.client import Client
from emberq.client.aio.scans import Scans
from emberq.client.blocking.loop_thread import LoopThread
from emberq.client.credentials import Credentials
from emberq.errors import (
    BrokerNotFound,
    CallTimeout,
    ClientError,
    NoNameServer,
    RemotingError,
    SendFailed,
    SystemBusy,
    TopicNotFound,
)
from emberq.model.queue import MessageQueue
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.routes import ClusterTable
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.spark.options import ConnectionOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_PAUSE_FIRST_S = 0.1
RETRY_PAUSE_MAX_S = 2.0
# No call of a driver may hang: Spark has no deadline of its own.
CALL_MAX_S = 60.0
# What may be better in a moment.
WORTH_A_RETRY = (RemotingError, BrokerNotFound, NoNameServer, SystemBusy)

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

    def run(self, work: Callable[[], Awaitable[T]], retries: int, wait_s: float = 0.0) -> T:
        """Wait for work on the loop; failures of the network are tried again, up to a deadline.

        Raises:
            CallTimeout: the deadline has passed.
        """
        return self._thread.run(bounded(lambda: retried(work, retries, wait_s), wait_s))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work on the loop that bounds each of its steps itself."""
        return self._thread.run(work)

    async def know(self, queue: MessageQueue) -> None:
        """Have the address of a queue's broker; its name is as on the wire.

        Raises:
            TopicNotFound, BrokerNotFound
        """
        try:
            await self.scans.queues(queue.topic, is_fresh=False)
        except TopicNotFound:
            await self.check_present([queue.broker_name])
            raise

    async def check_present(self, broker_names: Collection[str] = ()) -> None:
        """A topic without a route is gone only if its brokers are there: they take it along.

        Raises:
            BrokerNotFound: one of these is away; if none is named, all that there are.
        """
        request = new_request(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        answer = await self.client.name_servers.call(request, self.client.settings.api_timeout)
        present = decode_body(ClusterTable, answer.body).brokers
        away = sorted(set(broker_names) - present.keys())
        if away or not present:
            raise BrokerNotFound(f"{', '.join(away) or 'every broker'} is away")

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


async def bounded(work: Callable[[], Awaitable[T]], wait_s: float) -> T:
    """Raises CallTimeout when work has not ended in time, whatever it waits for."""
    limit_s = CALL_MAX_S + wait_s
    try:
        async with asyncio.timeout(limit_s):
            return await work()
    except CallTimeout:
        raise
    except TimeoutError as error:
        raise CallTimeout(
            f"name servers and brokers have not answered in {limit_s:g} s, all tries together"
        ) from error


async def retried(work: Callable[[], Awaitable[T]], retries: int, wait_s: float = 0.0) -> T:
    """Try again what may be better in a moment: so often, and on for so long.

    Raises:
        BrokerNotFound: the time is over.
    """
    clock = asyncio.get_running_loop().time
    failed_at_s: float | None = None
    pause_s = RETRY_PAUSE_FIRST_S
    for attempt in itertools.count(1):
        try:
            found = await work()
        except (*WORTH_A_RETRY, SendFailed) as error:
            if not _is_worth_a_retry(error):
                raise
            failed_at_s = clock() if failed_at_s is None else failed_at_s
            is_over = clock() - failed_at_s >= wait_s
            if attempt > retries and is_over:
                if not wait_s:
                    raise
                raise BrokerNotFound(f"after {wait_s:g} s (brokerWaitMs): {error}") from error
            level = logging.WARNING if attempt == retries + 1 else logging.INFO
            log.log(level, "retried attempt=%d wait_s=%g reason=%s", attempt, wait_s, error)
        else:
            if attempt > retries + 1:
                log.warning("retried_well attempts=%d", attempt)
            return found
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, RETRY_PAUSE_MAX_S)
    raise AssertionError("unreachable")


def _is_worth_a_retry(error: Exception) -> bool:
    """A send has failed like its last attempt."""
    if isinstance(error, SendFailed):
        return bool(error.attempts) and isinstance(error.attempts[-1], WORTH_A_RETRY)
    return True


async def looked_up_anew(client: Client, topic: str) -> None:
    """Have the addresses that a topic's brokers have by now, behind a failure of one of them."""
    try:
        await client.routes.refresh(client.wrap(topic))
    except ClientError as error:
        log.debug("route_not_refreshed topic=%s reason=%s", topic, error)
