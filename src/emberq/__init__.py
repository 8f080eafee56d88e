"""EmberQ: a message-queue system in Python, compatible with Apache RocketMQ.

The blocking client's names are here, the same for asyncio in `emberq.aio`. They are imported when
they are first used: servers and the command line import this package too, and start in less time
without them. Type checkers and editors read `__init__.pyi`.
"""

from importlib import import_module
from typing import Any

from emberq.errors import DeadLetter, EmberqError, RetryLater, SuspendQueue

__version__ = "0.1.0.dev0"

__all__ = [
    "Average",
    "AverageByCircle",
    "Client",
    "ClientHealth",
    "ClientSettings",
    "Codec",
    "Compression",
    "CompressionType",
    "ConsistentHash",
    "ConsumeFromWhere",
    "Credentials",
    "DeadLetter",
    "EmberqError",
    "Fixed",
    "FlowLimits",
    "Lag",
    "MachineRoom",
    "MachineRoomNearby",
    "Message",
    "MessageModel",
    "MessageQueue",
    "Metrics",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "ReceivedMessage",
    "RetryLater",
    "SendResult",
    "SendStatus",
    "Sending",
    "SuspendQueue",
    "TopicLogHandler",
    "Transaction",
    "__version__",
]

_BLOCKING = {
    "Client": "emberq.client.blocking.client",
    "Producer": "emberq.client.blocking.client",
    "PullConsumer": "emberq.client.blocking.consumers",
    "PushConsumer": "emberq.client.blocking.consumers",
    "TopicLogHandler": "emberq.client.log_handler",
    "Transaction": "emberq.client.blocking.transaction",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'emberq' has no attribute {name!r}")
    value = getattr(import_module(_BLOCKING.get(name, "emberq.aio")), name)
    globals()[name] = value
    return value
