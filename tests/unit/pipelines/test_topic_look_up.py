"""Which brokers store messages once is asked of them, by a request without messages."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from emberq.client.aio.client import Client
from emberq.client.aio.once import OnceSends
from emberq.errors import BrokerError
from emberq.model.queue import MessageQueue
from emberq.pipelines.topic_look_up import stores_once
from emberq.protocol.codes import ResponseCode

QUEUE = MessageQueue("broker-a", 0, "orders")


class Answering:
    """A client whose broker answers with a code."""

    def __init__(self, code: int) -> None:
        self._code = code
        self.asked: list[tuple[str, bytes]] = []

    def wrap(self, name: str) -> str:
        return name

    async def call_broker(
        self, broker_name: str, header: object, body: bytes, **_: Any
    ) -> SimpleNamespace:
        self.asked.append((broker_name, body))
        if self._code != ResponseCode.SUCCESS:
            raise BrokerError(self._code, "no", broker_name)
        return SimpleNamespace(code=self._code)


@pytest.mark.parametrize(
    ("code", "is_once"),
    [
        (ResponseCode.SUCCESS, True),
        (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, False),  # an official broker
        (ResponseCode.INVALID_PARAMETER, False),  # one of EmberQ's without an index
    ],
)
async def test_a_broker_says_whether_it_stores_once(code: int, is_once: bool) -> None:
    client = Answering(code)
    sends = OnceSends(cast(Client, client), "group")

    assert await stores_once(sends, QUEUE, 1.0) is is_once
    assert client.asked == [("broker-a", b"")]


async def test_another_failure_is_no_answer() -> None:
    sends = OnceSends(cast(Client, Answering(ResponseCode.NO_PERMISSION)), "group")

    with pytest.raises(BrokerError, match="answered 16"):
        await stores_once(sends, QUEUE, 1.0)
