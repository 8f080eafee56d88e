"""What is sent again because a broker could not make it safe in time."""

import logging

import pytest

from emberq.client.core.message import SendResult, SendStatus
from emberq.errors import SendFailed
from emberq.model.queue import MessageQueue
from emberq.spark import plain_delivery
from emberq.spark.plain_delivery import SafeSends

QUEUE = MessageQueue("broker-a", 0, "orders")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_delivery, "RETRY_PAUSE_FIRST_S", 0.0)


class Broker:
    """Answers each request with the next statuses, and the last of them for ever."""

    def __init__(self, *answers: list[SendStatus]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def __call__(self) -> list[SendResult]:
        statuses = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        return [
            SendResult(
                status=status,
                message_id="m",
                offset_message_id="o",
                queue=QUEUE,
                queue_offset=0,
            )
            for status in statuses
        ]


OK, SLAVE = SendStatus.SEND_OK, SendStatus.SLAVE_NOT_AVAILABLE
SLOW = [SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT]


async def test_what_is_safe_is_sent_once() -> None:
    broker = Broker([OK, OK])

    await SafeSends(3).send(broker, QUEUE)

    assert broker.asked == 1


@pytest.mark.parametrize("status", SLOW)
async def test_what_is_not_safe_in_time_is_sent_again(status: SendStatus) -> None:
    broker = Broker([OK, status], [status, OK], [OK, OK])

    await SafeSends(3).send(broker, QUEUE)

    assert broker.asked == 3


@pytest.mark.parametrize("status", SLOW)
async def test_what_is_never_safe_fails_after_so_many_retries(status: SendStatus) -> None:
    broker = Broker([status])

    with pytest.raises(SendFailed, match=f"answered {status} 4 times: a crash may take them"):
        await SafeSends(3).send(broker, QUEUE)

    assert broker.asked == 4


async def test_a_master_without_slaves_is_told_once_and_not_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker, sends = Broker([SLAVE, OK]), SafeSends(3)

    with caplog.at_level(logging.WARNING):
        await sends.send(broker, QUEUE)
        await sends.send(broker, QUEUE)

    assert broker.asked == 2
    assert [record.message for record in caplog.records] == ["stored_without_slave broker=broker-a"]
