"""Brokers on the test's own loop, and clients of them that speak in raw frames."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from emberq.broker.config import load
from emberq.broker.parts import BrokerParts
from emberq.broker.server import running_broker
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer, new_request
from emberq.testing.local_broker import SMALL_STORE
from tests.support.raw_peer import RawPeer, raw_peer
from tests.support.waiting import DEADLINE_S

BROKER_NAME = "brk"


@asynccontextmanager
async def broker(home: Path, **keys: str) -> AsyncIterator[BrokerParts]:
    """A broker with these keys, on a free port of the loopback interface."""
    own = {
        "bindAddress": "127.0.0.1",
        "listenPort": "0",
        "brokerName": BROKER_NAME,
        "brokerIP1": "127.0.0.1",
        "storePathRootDir": str(home / "store"),
    }
    async with running_broker(load(None, {**own, **SMALL_STORE, **keys}, {})) as running:
        yield running


class RawClient:
    """One connection of a client: asks, and keeps what the broker asks it meanwhile."""

    def __init__(self, peer: RawPeer, client_id: str) -> None:
        self.peer = peer
        self.client_id = client_id
        self.pushed: deque[Command] = deque()
        self._opaque = 0

    async def ask(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b""
    ) -> Command:
        request = new_request(code, fields, body)
        self._opaque += 1
        request.opaque = self._opaque
        await self.peer.send(request)
        while True:
            command = await self.peer.receive()
            if command.is_response and command.opaque == request.opaque:
                return command
            self.pushed.append(command)

    async def next_push(self) -> Command:
        """What the broker sends by itself, in order."""
        if self.pushed:
            return self.pushed.popleft()
        async with asyncio.timeout(DEADLINE_S):
            return await self.peer.receive()

    async def answer_next(self, code: int, body: bytes) -> Command:
        """Wait for a call of the broker and answer it."""
        call = await self.next_push()
        while call.is_oneway:
            call = await self.next_push()
        await self.peer.send(answer(call, code, body=body))
        return call

    async def beat(
        self, group: str, *topics: str, producers: tuple[str, ...] = (), **rest: Any
    ) -> Command:
        body = {
            "clientID": self.client_id,
            "consumerDataSet": [
                {
                    "groupName": group,
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING",
                    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                    "subscriptionDataSet": [
                        {"topic": topic, "subString": "*", "subVersion": 1} for topic in topics
                    ],
                }
            ],
            "producerDataSet": [{"groupName": name} for name in producers],
            **rest,
        }
        return await self.ask(RequestCode.HEART_BEAT, body=json.dumps(body).encode())

    async def members(self, group: str) -> list[str]:
        fields = {"consumerGroup": group}
        found = await self.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
        return sorted(json.loads(found.body)["consumerIdList"]) if found.code == 0 else []

    async def lock(self, code: int, group: str, *queue_ids: int) -> list[int]:
        queues = [{"topic": "T", "brokerName": BROKER_NAME, "queueId": each} for each in queue_ids]
        body = {"consumerGroup": group, "clientId": self.client_id, "mqSet": queues}
        found = await self.ask(code, body=json.dumps(body).encode())
        if not found.body:
            return []
        return sorted(queue["queueId"] for queue in json.loads(found.body)["lockOKMQSet"])


@asynccontextmanager
async def clients(running: BrokerParts, *client_ids: str) -> AsyncIterator[tuple[RawClient, ...]]:
    """Several clients, each on a connection of its own."""
    async with AsyncExitStack() as stack:
        address = ("127.0.0.1", running.addresses.port)
        peers = [await stack.enter_async_context(raw_peer(address)) for _ in client_ids]
        yield tuple(map(RawClient, peers, client_ids))
