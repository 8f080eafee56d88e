"""Which queues this member has: computed from routes and members, applied queue by queue."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol

from emberq.client.aio.client import Client
from emberq.client.core.allocation import AllocationStrategy, sorted_queues
from emberq.errors import ClientError, RemotingError, TopicNotFound
from emberq.model.queue import MessageQueue
from emberq.model.route import MASTER_ID
from emberq.model.system_topics import RETRY_PREFIX
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.groups import ConsumerIds
from emberq.protocol.headers.groups import GetConsumerListByGroup

log = logging.getLogger(__name__)

INTERVAL_S = 20.0
# When the share could not be applied as a whole.
INTERVAL_UNBALANCED_S = 1.0
RETRY_TOPIC_LOOKS_MAX = 10
# Notices of a group that changes all the time are answered this often at most.
INTERVAL_MIN_S = 0.2
# A queue without a pull for so long is given up and taken again: something is stuck.
PULL_IDLE_MAX_S = 120.0


class AssignedQueue(Protocol):
    @property
    def pulled_at(self) -> float: ...

    @property
    def is_leaving(self) -> bool:
        """Could not be given up yet, and cannot be kept either."""


class QueueTaker(Protocol):
    """Begins and ends the work on a queue."""

    @property
    def works(self) -> Mapping[MessageQueue, AssignedQueue]: ...

    async def take(self, queue: MessageQueue) -> bool:
        """False: not now; it is tried again soon."""

    async def give_up(self, queue: MessageQueue) -> bool:
        """False: not yet."""


class Assignments:
    """Runs until it is cancelled; `soon` makes it look again at once."""

    def __init__(
        self,
        client: Client,
        group: str,
        taker: QueueTaker,
        *,
        topics: Callable[[], Collection[str]],
        strategy: AllocationStrategy,
        is_broadcasting: bool,
        is_paused: Callable[[], bool],
        on_change: Callable[[set[MessageQueue], set[MessageQueue]], Awaitable[None]],
    ) -> None:
        self._client = client
        self._group = group
        self._taker = taker
        self._topics = topics
        self._strategy = strategy
        self._is_broadcasting = is_broadcasting
        self._is_paused = is_paused
        self._on_change = on_change
        self._is_wanted = asyncio.Event()
        self._is_settled = asyncio.Event()
        self._beginnings = 0
        self._is_retry_topic_missing = False
        self._looks_for_retry_topic = RETRY_TOPIC_LOOKS_MAX

    def soon(self) -> None:
        self._is_wanted.set()

    def begin_anew(self) -> None:
        """There are other topics now: nothing is settled any more."""
        self._beginnings += 1
        self._is_settled.clear()
        self._is_wanted.set()

    async def settled(self) -> None:
        """Return when the share was applied as a whole once."""
        await self._is_settled.wait()

    async def run(self) -> None:
        while True:
            self._is_wanted.clear()
            beginning = self._beginnings
            is_balanced = False
            try:
                is_balanced = await self.share_out()
            except Exception:
                log.exception("share_not_computed group=%s", self._group)
            if is_balanced and beginning == self._beginnings:
                self._is_settled.set()
            await asyncio.sleep(INTERVAL_MIN_S)
            pause_s = self._pause_s(is_balanced)
            try:
                async with asyncio.timeout(pause_s - INTERVAL_MIN_S):
                    await self._is_wanted.wait()
            except TimeoutError:
                continue

    def _pause_s(self, is_balanced: bool) -> float:
        if self._is_retry_topic_missing and self._looks_for_retry_topic:
            # Brokers make it for our first heartbeat, and name servers hear of it a little later.
            self._looks_for_retry_topic -= 1
            return INTERVAL_UNBALANCED_S
        return INTERVAL_S if is_balanced else INTERVAL_UNBALANCED_S

    async def share_out(self) -> bool:
        """Compute and apply the share; False: not all of it could be applied."""
        if self._is_paused():
            return True
        is_balanced = True
        self._is_retry_topic_missing = False
        taken: set[MessageQueue] = set()
        given_up: set[MessageQueue] = set()
        topics = set(self._topics())
        for topic in sorted(topics):
            try:
                share = await self._share_of(topic)
            except TopicNotFound:
                if topic.startswith(RETRY_PREFIX):
                    self._is_retry_topic_missing = True
                else:
                    is_balanced = False
                continue
            except (ClientError, RemotingError) as error:
                log.warning("share_unknown topic=%s reason=%s", topic, error)
                is_balanced = False
                continue
            if share is None:
                is_balanced = False
                continue
            is_balanced &= await self._apply(topic, share, taken, given_up)
        for queue in [each for each in self._taker.works if each.topic not in topics]:
            if await self._taker.give_up(queue):
                given_up.add(queue)
        if taken or given_up:
            await self._on_change(taken, given_up)
        return is_balanced

    async def _share_of(self, topic: str) -> set[MessageQueue] | None:
        """None: the members are not known, so everything stays as it is."""
        queues = sorted_queues(await self._client.subscribe_queues(topic))
        if self._is_broadcasting:
            return set(queues)
        members = await self._members(queues)
        if queues and self._client.client_id not in members:
            # The broker is new to us, has restarted, or has not heard from us for too long.
            log.info("member_unknown group=%s", self._group)
            await self._client.heartbeats.beat(is_whole=True)
            members = await self._members(queues)
        if not members:
            return None
        return set(self._strategy.allocate(self._client.client_id, queues, members))

    async def _members(self, queues: list[MessageQueue]) -> list[str]:
        """Asked at any broker of the topic; sorted as all members sort them."""
        if not queues:
            return []
        broker = random.choice(sorted({queue.broker_name for queue in queues}))
        address = await self._client.broker_address(broker, MASTER_ID)
        header = GetConsumerListByGroup(consumer_group=self._group)
        try:
            answer = await self._client.call(address, self._client.request(header))
        except (ClientError, RemotingError) as error:
            log.info("members_unknown group=%s reason=%s", self._group, error)
            return []
        # Brokers list connections: a member is there twice while they do not know that its old
        # one is dead, and half of its queues would be nobody's.
        return sorted(set(decode_body(ConsumerIds, answer.body).client_ids))

    async def _apply(
        self,
        topic: str,
        share: set[MessageQueue],
        taken: set[MessageQueue],
        given_up: set[MessageQueue],
    ) -> bool:
        works = self._taker.works
        is_balanced = True
        now = time.monotonic()
        for queue, work in list(works.items()):
            if queue.topic != topic:
                continue
            is_stuck = not work.is_leaving and now - work.pulled_at > PULL_IDLE_MAX_S
            if queue in share and not is_stuck and not work.is_leaving:
                continue
            if is_stuck:
                log.error("queue_stuck queue=%s seconds=%d", queue, now - work.pulled_at)
            if await self._taker.give_up(queue):
                given_up.add(queue)
            else:
                is_balanced = False
        for queue in sorted_queues(share - works.keys()):
            try:
                is_taken = await self._taker.take(queue)
            except (ClientError, RemotingError) as error:
                log.warning("queue_not_taken queue=%s reason=%s", queue, error)
                is_taken = False
            if is_taken:
                taken.add(queue)
            is_balanced &= is_taken
        return is_balanced
