"""Orderly consumers lock queues for themselves (41) and give them back (42)."""

from collections.abc import Callable

from emberq.broker.order_locks import OrderLocks
from emberq.errors import RequestRejected
from emberq.model.queue import MessageQueue
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.locks import LockedQueues, QueueLocks
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry

# Longer than names of topics and brokers may be; locks of others are kept for a minute.
NAME_LENGTH_MAX = 255


class LockHandlers:
    """One broker is its own majority: `lockInStrictMode` and `onlyThisBroker` change nothing."""

    def __init__(self, locks: OrderLocks, steady_ms: Callable[[], int]) -> None:
        self._locks = locks
        self._steady_ms = steady_ms

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.LOCK_BATCH_MQ, self.lock)
        registry.add(RequestCode.UNLOCK_BATCH_MQ, self.unlock)

    def lock(self, command: Command, connection: Connection) -> Command:
        asked = decode_body(QueueLocks, command.body)
        if not all(map(_is_plausible, asked.queues)):
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"a name has more than {NAME_LENGTH_MAX} letters"
            )
        granted = self._locks.lock(asked.group, asked.client_id, asked.queues, self._steady_ms())
        return answer(command, body=encode_body(LockedQueues(queues=granted)))

    def unlock(self, command: Command, connection: Connection) -> Command:
        given = decode_body(QueueLocks, command.body)
        self._locks.unlock(given.group, given.client_id, given.queues)
        return answer(command)


def _is_plausible(queue: MessageQueue) -> bool:
    return max(len(queue.topic), len(queue.broker_name)) <= NAME_LENGTH_MAX
