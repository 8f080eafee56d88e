"""A broker with messages of one queue, and scans of it; the broker may be one that has never heard
of scans."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from emberq.client.aio.client import Client
from emberq.client.aio.scans import Scans
from emberq.client.core.scanned import ScanFilter
from emberq.errors import TopicNotFound
from emberq.model.queue import MessageQueue
from emberq.model.subscription import Subscription
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.heartbeat import ConsumerPresence, Heartbeat
from emberq.protocol.codes import EmberqCode, RequestCode
from emberq.protocol.command import Command, new_request
from emberq.protocol.headers.nameserver import DeleteTopicInNameServer
from emberq.protocol.headers.topics import DeleteTopicInBroker
from emberq.record.decode import iter_records
from emberq.record.host import pack_host
from emberq.record.properties import encode_properties
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Entry
from emberq.testing.embedded import EmbeddedCluster, cluster_on_this_loop

HOST = pack_host("10.1.2.3", 4711)
QUEUE = MessageQueue("broker-a", 0, "T")
EMPTY = MessageQueue("broker-a", 3, "T")


class Scanned:
    def __init__(self, cluster: EmbeddedCluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client
        self.scans = Scans(client)

    async def put(self, count: int, size: int = 10, **properties: str) -> None:
        broker = self.cluster.broker
        broker.topics.create_if_absent("T", 4)
        for _ in range(count):
            broker.store.put(
                "T",
                0,
                b"x" * size,
                properties=encode_properties(properties),
                tags=properties.get("TAGS"),
                born_host=HOST,
            )
        broker.store.dispatch_now()
        await self.registered()

    async def put_at(self, *times_ms: int) -> None:
        """A message stored at each of these times."""
        writer = self.cluster.broker.store._writer
        for time_ms in times_ms:
            writer._now_ms = lambda now_ms=time_ms: now_ms  # type: ignore[misc] # a number
            await self.put(1)

    def answer(
        self, code: RequestCode, handler: Callable[[Command, Connection], Command | None]
    ) -> None:
        """Have the broker answer as another one does."""
        registry = self.cluster.broker.registry
        registry._entries.pop(int(code))
        registry.add(code, handler)

    def counted(self) -> list[int]:
        """Codes of requests to the broker from now on, as they come."""
        entries, codes = self.cluster.broker.registry._entries, list[int]()

        def noted(entry: Entry) -> Entry:
            def handle(command: Command, connection: Connection) -> object:
                codes.append(command.code)
                return entry.handle(command, connection)

            return Entry(handle, entry.is_async, entry.wait_max_ms)

        for code, entry in list(entries.items()):
            entries[code] = noted(entry)
        return codes

    async def join(self, group: str, client_id: str = "service") -> None:
        """A consumer of the group comes online."""
        presence = ConsumerPresence(
            group=group, subscriptions=[Subscription(topic="T", expression="*")]
        )
        body = encode_body(Heartbeat(client_id=client_id, consumers=[presence]))
        beat = new_request(RequestCode.HEART_BEAT, {}, body)
        await self.client.call(self.cluster.broker_address, beat)

    async def leave(self, group: str) -> None:
        fields = {"clientID": "service", "consumerGroup": group}
        farewell = new_request(RequestCode.UNREGISTER_CLIENT, fields)
        await self.client.call(self.cluster.broker_address, farewell)

    async def delete(self, topic: str) -> None:
        for address, header in (
            (self.cluster.broker_address, DeleteTopicInBroker(topic=topic)),
            (self.cluster.name_server, DeleteTopicInNameServer(topic=topic)),
        ):
            await self.client.call(address, self.client.request(header))

    async def registered(self) -> None:
        async with asyncio.timeout(15):
            while True:
                try:
                    await self.scans.queues("T")
                except TopicNotFound:
                    await asyncio.sleep(0.01)
                else:
                    return

    async def read(self, end: int, wanted: ScanFilter | None = None) -> list[int]:
        """Queue offsets of all records up to an end, in as many pulls as it takes."""
        offset = 0
        found: list[int] = []
        while offset < end:
            part = await self.scans.pull(QUEUE, offset, end, wanted=wanted)
            found += [record.queue_offset for record in iter_records(part.content)]
            assert part.next_offset > offset
            offset = part.next_offset
        return found


@asynccontextmanager
async def scanned(folder: Path, *, is_official: bool, **keys: str) -> AsyncIterator[Scanned]:
    async with cluster_on_this_loop(folder, **keys) as cluster:
        if is_official:  # a broker that has never heard of scans
            for code in EmberqCode:
                cluster.broker.registry._entries.pop(int(code))
        async with Client(cluster.name_server) as client:
            yield Scanned(cluster, client)
