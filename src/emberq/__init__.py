"""EmberQ: a message-queue system in Python, compatible with Apache RocketMQ.

The blocking client's names are here, the same for asyncio in `emberq.aio`. They are imported when
they are first used: servers and the command line import this package too, and start in less time
without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from emberq.errors import DeadLetter, EmberqError, RetryLater, SuspendQueue

if TYPE_CHECKING:
    from emberq.client.aio.client import ClientHealth
    from emberq.client.aio.push_consumer import Lag
    from emberq.client.aio.queue_work import FlowLimits
    from emberq.client.blocking.client import Client, Producer
    from emberq.client.blocking.consumers import PullConsumer, PushConsumer
    from emberq.client.codecs import Codec
    from emberq.client.core.allocation import (
        Average,
        AverageByCircle,
        ConsistentHash,
        Fixed,
        MachineRoom,
        MachineRoomNearby,
    )
    from emberq.client.core.message import Message, SendResult, SendStatus
    from emberq.client.core.outgoing import Compression
    from emberq.client.core.received import ReceivedMessage
    from emberq.client.credentials import Credentials
    from emberq.client.settings import ClientSettings
    from emberq.model.queue import MessageQueue
    from emberq.model.subscription import ConsumeFromWhere, MessageModel
    from emberq.record.system_flag import CompressionType

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
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "ReceivedMessage",
    "RetryLater",
    "SendResult",
    "SendStatus",
    "SuspendQueue",
    "__version__",
]

_BLOCKING = {
    "Client": "emberq.client.blocking.client",
    "Producer": "emberq.client.blocking.client",
    "PullConsumer": "emberq.client.blocking.consumers",
    "PushConsumer": "emberq.client.blocking.consumers",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'emberq' has no attribute {name!r}")
    value = getattr(import_module(_BLOCKING.get(name, "emberq.aio")), name)
    globals()[name] = value
    return value
