"""A store with transactions under way changes hands; the next broker goes on with them."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from emberq.remoting.connection import Connection
from tests.interop.harness.artifacts import Line
from tests.interop.harness.servers import Broker
from tests.interop.store_sizes import BROKER_CONFIG
from tests.interop.store_station import Ending, broker_on, there_and_back
from tests.support.transaction_kills import KINDS, Half, Payer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

EACH = 10
SETTLED_WITHIN_S = 90.0
# Nobody is asked at the first two brokers; what they leave open is the last one's.
CALM = BROKER_CONFIG | {
    "transactionCheckInterval": "600000",
    # Official brokers check once more when they stop, and leave copies of what is older than this.
    "transactionTimeOut": "600000",
}
QUICK = BROKER_CONFIG | {"transactionTimeOut": "1000", "transactionCheckInterval": "2000"}


class Travels:
    """A producer that ends some transactions at once, some at the next broker, some never."""

    def __init__(self) -> None:
        self.payer = Payer()
        self._unended: list[Half] = []

    async def stay(self, broker: Broker, stage: str) -> None:
        connection = await self.payer.connected("127.0.0.1", broker.port)
        await self._end_earlier(connection)
        for number in range(EACH):
            for kind in KINDS:
                await self.payer.pay(connection, f"{kind}:{stage}-{number}".encode(), kind)
            for kind in ("commit", "rollback"):
                body = f"{kind}:{stage}-{number}-later".encode()
                self._unended.append(await self.payer.prepare(connection, body))
        connection.abort()

    async def settle(self, broker: Broker) -> Counter[bytes]:
        """Until all that is not rolled back is delivered."""
        connection = await self.payer.connected("127.0.0.1", broker.port)
        await self._end_earlier(connection)
        seen = await self.payer.until_settled(connection, SETTLED_WITHIN_S)
        connection.abort()
        return seen

    async def _end_earlier(self, connection: Connection) -> None:
        unended, self._unended = self._unended, []
        for half in unended:
            await self.payer.end(connection, half)


@there_and_back
def test_transactions_move_there_and_back(
    line: Line, first: str, ending: Ending, home: Path
) -> None:
    travels = Travels()
    one, two = (line, None) if first == "official" else (None, line)

    with broker_on(home, one, ending, CALM) as broker:
        asyncio.run(travels.stay(broker, "one"))
    with broker_on(home, two, ending, CALM) as broker:
        asyncio.run(travels.stay(broker, "two"))
    with broker_on(home, one, ending, QUICK) as broker:
        seen = asyncio.run(travels.settle(broker))

    payer = travels.payer
    assert not [body for body in seen if body.startswith(b"rollback")]
    forgotten = {body for body in payer.stored if body.startswith(b"forgotten")}
    assert forgotten <= payer.asked.keys()
    if first == "emberq" and line.is_v5 and ending is Ending.CLOSED:
        # All marks are there and are read: nobody is asked about what was ended.
        assert not payer.asked_in_vain
        assert set(seen.values()) == {1}
