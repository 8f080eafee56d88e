"""A producer of transactions whose broker is killed again and again.

Each message says in its body how it ends: committed, rolled back, or not at all until the broker
asks. What the broker answered is remembered; in the end it is compared with what consumers see.
"""

import asyncio
import time
from collections import Counter
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

from emberq.errors import RemotingError
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, new_request
from emberq.record.decode import decode_record
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.registry import HandlerRegistry
from emberq.testing.local_broker import LocalBroker, run_broker
from tests.support.send_load import CALL_TIMEOUT_S, QueueReader
from tests.support.waiting import until

TOPIC, GROUP, CLIENT = "Payments", "payers", "payer-1"
CONFIG = {
    "brokerFastFailureEnable": "false",  # a busy machine makes the broker no less right
    "transactionTimeOut": "300",
    "transactionCheckInterval": "300",
    "transactionCheckMax": "1000",  # nor does it lose patience with a producer that is busy
    "flushConsumerOffsetInterval": "100",
}
LANES = 16
COMMIT, ROLLBACK, UNKNOWN = "8", "12", "0"
KINDS = ("commit", "rollback", "forgotten")
SETTLED_WITHIN_S = 60.0
BEAT_INTERVAL_S = 10.0
_LOOK_AGAIN_S = 0.05
_PROPERTIES = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02"


class Half(NamedTuple):
    """A half message and where its broker has put it."""

    body: bytes
    queue_offset: str
    log_offset: str


class Payer:
    """A producer that remembers what brokers answered, and answers what they ask."""

    def __init__(self) -> None:
        self.stored: set[bytes] = set()  # halves that a broker acknowledged
        self.ended: set[bytes] = set()  # whose end it acknowledged too
        self.asked: Counter[bytes] = Counter()
        self.answered: set[bytes] = set()  # about whose end it was told when it asked
        self.asked_in_vain: list[bytes] = []
        self._seen: Counter[bytes] = Counter()
        self._reader = QueueReader(TOPIC, 0)

    def open(self) -> set[bytes]:
        """Halves that wait for their end."""
        return self.stored - self.ended - self.answered

    async def connected(self, host: str, port: int) -> Connection:
        handlers = HandlerRegistry()
        handlers.add(RequestCode.CHECK_TRANSACTION_STATE, self._answer)
        payer = await connect(host, port, Endpoint(handlers))
        await self._beat(payer)
        return payer

    async def beat(self, payer: Connection) -> None:
        """Say that it is there until the broker is gone: brokers hang up on who is silent."""
        try:
            while True:
                await asyncio.sleep(BEAT_INTERVAL_S)
                await self._beat(payer)
        except RemotingError:
            return

    async def _beat(self, payer: Connection) -> None:
        body = f'{{"clientID":"{CLIENT}","producerDataSet":[{{"groupName":"{GROUP}"}}]}}'
        beat = new_request(RequestCode.HEART_BEAT, None, body.encode())
        assert (await payer.call(beat, CALL_TIMEOUT_S)).code == 0

    async def pay(self, payer: Connection, body: bytes, kind: str) -> None:
        half = await self.prepare(payer, body)
        if kind != "forgotten":
            await self.end(payer, half)

    async def prepare(self, payer: Connection, body: bytes) -> Half:
        """The first half of a transaction."""
        fields = {"a": GROUP, "b": TOPIC, "c": "TBW102", "d": "1", "e": "0", "f": "4"}
        fields |= {"g": str(time.time_ns() // 1_000_000), "h": "0", "i": _PROPERTIES}
        send = new_request(RequestCode.SEND_MESSAGE_V2, fields, body)
        answer = await payer.call(send, CALL_TIMEOUT_S)
        assert answer.code == 0, answer
        assert answer.fields is not None
        self.stored.add(body)
        log_offset = int(answer.fields["msgId"][-16:], 16)
        return Half(body, answer.fields["queueOffset"], str(log_offset))

    async def end(self, payer: Connection, half: Half) -> None:
        """The second half, as the body says."""
        end = new_request(RequestCode.END_TRANSACTION, _end_fields(*half))
        response = await payer.call(end, CALL_TIMEOUT_S)
        assert response.code == 0, response
        self.ended.add(half.body)

    def _answer(self, question: Command, payer: Connection) -> None:
        """The broker asks; a forgotten message is remembered the second time."""
        body = bytes(decode_record(question.body).body)
        fields = question.fields or {}
        self.asked[body] += 1
        if body in self.ended:
            self.asked_in_vain.append(body)  # it was told already
        answer = _end_fields(body, fields["tranStateTableOffset"], fields["commitLogOffset"])
        answer["fromTransactionCheck"] = "true"
        if body.startswith(b"forgotten") and self.asked[body] == 1:
            answer["commitOrRollback"] = UNKNOWN
        else:
            self.answered.add(body)
        payer.send_oneway(new_request(RequestCode.END_TRANSACTION, answer))

    async def delivered(self, reader: Connection) -> Counter[bytes]:
        """What consumers have seen so far."""
        self._seen.update(bytes(record.body) for record in await self._reader.read(reader))
        return self._seen

    async def until_settled(self, payer: Connection, within_s: float) -> Counter[bytes]:
        """Wait until all that is not rolled back is delivered; what consumers see."""
        wanted = {body for body in self.stored if not body.startswith(b"rollback")}
        try:
            async with asyncio.timeout(within_s):
                while not wanted <= (seen := await self.delivered(payer)).keys():  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_AGAIN_S)
        except TimeoutError:
            missing = sorted(wanted - self._seen.keys())
            raise AssertionError(f"{len(missing)} are not delivered: {missing[:5]}") from None
        return seen

    def check(self, seen: Counter[bytes]) -> None:
        """Nothing committed is missing, nothing rolled back is there, nothing is there twice
        whose end was answered, and nobody's silence was taken for an answer."""
        rolled_back = [body for body in seen if body.startswith(b"rollback")]
        assert not rolled_back, rolled_back[:5]
        assert not self.asked_in_vain, self.asked_in_vain[:5]
        doubled = [body for body in self.ended if seen[body] > 1]
        assert not doubled, doubled[:5]
        unasked = [
            body for body in self.stored if body.startswith(b"forgotten") and not self.asked[body]
        ]
        assert not unasked, unasked[:5]


class TransactionKills(Payer):
    """One store directory and everything that was promised about it."""

    def __init__(self, home: Path, random: Random, **config: str) -> None:
        super().__init__()
        self._home = home
        self._random = random
        self._config = CONFIG | config
        self._numbers = count()

    async def run(self) -> None:
        """One life of the broker, ended in the middle of many transactions."""
        with self._broker() as broker:
            payer = await self.connected(broker.host, broker.port)
            lanes = [asyncio.create_task(self._lane(payer)) for _ in range(LANES)]
            goal = len(self.stored) + self._random.randrange(20, 400)
            await until(lambda: len(self.stored) >= goal)
            await asyncio.to_thread(broker.kill)
            await asyncio.gather(*lanes)
            payer.abort()

    async def settle(self) -> Counter[bytes]:
        """A last life in which everything is ended; what consumers see."""
        with self._broker() as broker:
            payer = await self.connected(broker.host, broker.port)
            seen = await self.until_settled(payer, SETTLED_WITHIN_S)
            payer.abort()
            assert broker.stop() == 0
        return seen

    def _broker(self) -> AbstractContextManager[LocalBroker]:
        return run_broker(self._home, "--log-level", "error", config=self._config)

    async def _lane(self, payer: Connection) -> None:
        try:
            while True:
                number = next(self._numbers)
                kind = KINDS[number % len(KINDS)]
                await self.pay(payer, f"{kind}:{number:08d}".encode(), kind)
        except RemotingError:
            return


def _end_fields(body: bytes, queue_offset: str, log_offset: str) -> dict[str, str]:
    return {
        "producerGroup": GROUP,
        "tranStateTableOffset": queue_offset,
        "commitLogOffset": log_offset,
        "commitOrRollback": ROLLBACK if body.startswith(b"rollback") else COMMIT,
        "msgId": "unused",
    }
