import asyncio
from functools import partial

from emberq.broker.departures import Departures
from emberq.broker.members import Client, Consumers, Manner
from emberq.broker.order_locks import OrderLocks
from emberq.broker.producers import Producers
from emberq.model.queue import MessageQueue
from emberq.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from tests.support.waiting import until
from tests.unit.broker.peers import Peer

PUSH = Manner(
    ConsumeType.CONSUME_PASSIVELY,
    MessageModel.CLUSTERING,
    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
)
QUEUE = MessageQueue("brk", 0, "T")


class Clients:
    def __init__(self, silence_max_ms: int = 120_000) -> None:
        self.now_ms = 0
        self.consumers, self.producers = Consumers(), Producers()
        self.locks = OrderLocks()
        self.departures = Departures(
            self.consumers,
            self.producers,
            self.locks,
            silence_max_ms=lambda: silence_max_ms,
            steady_ms=lambda: self.now_ms,
        )

    def come(self, peer: Peer) -> None:
        client = Client(peer, peer.peer, "JAVA", 513)
        self.consumers.register("G", client, PUSH, [], self.now_ms)
        self.producers.register("P", client, self.now_ms)
        self.locks.lock("G", peer.peer, [QUEUE], self.now_ms)


def test_a_closed_connection_is_in_no_group_but_its_locks_stay() -> None:
    clients, peer = Clients(), Peer()
    clients.come(peer)

    clients.departures.connection_closed(peer.connection)
    clients.departures.connection_closed(peer.connection)

    assert clients.consumers.names() == []
    assert clients.producers.groups() == []
    assert clients.locks.owner("G", QUEUE, 0) == peer.peer


def test_silent_clients_are_removed_and_hung_up_on() -> None:
    clients, silent, alive = Clients(), Peer("silent:1"), Peer("alive:1")
    clients.come(silent)
    clients.now_ms = 60_000
    clients.come(alive)

    clients.now_ms = 120_001
    clients.departures.expire()

    assert (silent.is_closed, alive.is_closed) == (True, False)
    group = clients.consumers.get("G")
    assert group is not None
    assert group.client_ids() == ["alive:1"]
    assert len(clients.locks) == 0


async def test_the_watch_looks_again_and_again() -> None:
    clients, first, second = Clients(silence_max_ms=4), Peer("a:1"), Peer("b:1")
    watch = asyncio.create_task(clients.departures.watch())

    for peer in (first, second):
        clients.come(peer)
        clients.now_ms += 5
        await until(partial(getattr, peer, "is_closed"))

    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
