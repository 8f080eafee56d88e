import json

from emberq.broker.handlers.locks import LockHandlers
from emberq.broker.order_locks import OrderLocks
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from emberq.remoting.registry import HandlerRegistry
from tests.unit.broker.peers import Peer, ask


class Locking:
    def __init__(self) -> None:
        self.now_ms = 0
        self.registry = HandlerRegistry()
        LockHandlers(OrderLocks(), lambda: self.now_ms).add_to(self.registry)

    async def call(self, code: int, client_id: str, *queue_ids: int) -> Command:
        queues = [{"topic": "T", "brokerName": "brk", "queueId": each} for each in queue_ids]
        body = {"consumerGroup": "G", "clientId": client_id, "mqSet": queues}
        return await ask(self.registry, Peer(), code, body=json.dumps(body).encode())

    async def lock(self, client_id: str, *queue_ids: int) -> list[int]:
        answer = await self.call(RequestCode.LOCK_BATCH_MQ, client_id, *queue_ids)
        assert answer.code == 0
        return [queue["queueId"] for queue in json.loads(answer.body)["lockOKMQSet"]]


async def test_the_answer_names_the_queues_that_now_belong_to_the_client() -> None:
    locking = Locking()

    answer = await locking.call(RequestCode.LOCK_BATCH_MQ, "a", 0)

    assert answer.body == b'{"lockOKMQSet":[{"brokerName":"brk","queueId":0,"topic":"T"}]}'
    assert await locking.lock("a", 0, 1) == [0, 1]
    refused = await locking.call(RequestCode.LOCK_BATCH_MQ, "b", 0)
    assert refused.body == b'{"lockOKMQSet":[]}'


async def test_unlocked_and_expired_queues_go_to_whoever_asks_next() -> None:
    locking = Locking()
    await locking.lock("a", 0, 1)

    answer = await locking.call(RequestCode.UNLOCK_BATCH_MQ, "a", 0)
    assert (answer.code, answer.body) == (0, b"")
    assert await locking.lock("b", 0, 1) == [0]
    locking.now_ms = 60_001
    assert await locking.lock("b", 0, 1) == [0, 1]


async def test_names_that_nobody_can_have_are_refused() -> None:
    locking = Locking()
    queue = {"topic": "T" * 256, "brokerName": "brk", "queueId": 0}
    body = json.dumps({"consumerGroup": "G", "clientId": "a", "mqSet": [queue]}).encode()

    answer = await ask(locking.registry, Peer(), RequestCode.LOCK_BATCH_MQ, body=body)

    assert answer.code == 1
