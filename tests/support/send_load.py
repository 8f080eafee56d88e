"""Producers and readers for crash tests: bodies say who sent them, and in which order."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from itertools import count

from emberq.errors import RemotingError
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.record.batch import encode_batch_element
from emberq.record.decode import iter_records
from emberq.record.record import Record
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint

IN_FLIGHT = 8
CALL_TIMEOUT_S = 10.0
BATCH_SIZE = 5


class Producer:
    """Sends numbered messages to one queue until its broker dies, and knows what was answered."""

    def __init__(self, name: str, topic: str, queue_id: int, *, delay_level: int = 0) -> None:
        self.name = name
        self.topic = topic
        self.queue_id = queue_id
        self.is_batched = name.startswith("batch")
        self._properties = f"DELAY\x01{delay_level}\x02" if delay_level else ""
        self._numbers: Iterator[int] = count()
        self.acknowledged: set[bytes] = set()

    async def send_until_it_dies(self, host: str, port: int) -> None:
        try:
            connection = await connect(host, port, Endpoint())
        except RemotingError:
            return
        try:
            await asyncio.gather(*(self._lane(connection) for _ in range(IN_FLIGHT)))
        except RemotingError:
            return
        finally:
            connection.abort()

    async def _lane(self, connection: Connection) -> None:
        while True:
            size = BATCH_SIZE if self.is_batched else 1
            bodies = [f"{self.name}:{next(self._numbers):08d}".encode() for _ in range(size)]
            code = RequestCode.SEND_MESSAGE_V2
            content = bodies[0]
            if self.is_batched:
                code = RequestCode.SEND_BATCH_MESSAGE
                content = b"".join(map(encode_batch_element, bodies))
            request = new_request(code, self._fields(), content)
            response = await connection.call(request, CALL_TIMEOUT_S)
            assert response.code == 0, response
            self.acknowledged.update(bodies)

    def _fields(self) -> dict[str, str]:
        return {
            "a": "PG",
            "b": self.topic,
            "c": "TBW102",
            "d": "4",
            "e": str(self.queue_id),
            "f": "0",
            "g": "1700000000000",
            "h": "0",
            "i": self._properties,
            "m": "true" if self.is_batched else "false",
        }


class QueueReader:
    """Reads on in one queue, from its beginning, as a consumer does."""

    def __init__(self, topic: str, queue_id: int) -> None:
        self._fields = {
            "consumerGroup": "Readers",
            "topic": topic,
            "queueId": str(queue_id),
            "queueOffset": "0",
            "maxMsgNums": "32",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
        }

    async def read(self, connection: Connection) -> list[Record]:
        """All that has come since the last call."""
        records: list[Record] = []
        while True:
            request = new_request(RequestCode.PULL_MESSAGE, self._fields)
            response = await connection.call(request, CALL_TIMEOUT_S)
            if response.code != 0:
                return records
            assert response.fields is not None
            records += iter_records(response.body)
            self._fields["queueOffset"] = response.fields["nextBeginOffset"]


async def pulled(connection: Connection, topic: str, queue_id: int) -> list[Record]:
    """Every message of a queue, as a consumer from the beginning gets them."""
    return await QueueReader(topic, queue_id).read(connection)


def by_producer(bodies: list[bytes]) -> dict[str, list[int]]:
    """The numbers of each producer, in the order of the queue."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for body in bodies:
        name, _, number = body.decode().partition(":")
        numbers[name].append(int(number))
    return numbers
