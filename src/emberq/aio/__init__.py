"""EmberQ's client for asyncio; `emberq` has the same names for programs without a loop."""

from emberq.client.aio.client import Client, ClientHealth
from emberq.client.aio.lag import Lag
from emberq.client.aio.producer import Producer
from emberq.client.aio.pull_consumer import PullConsumer
from emberq.client.aio.push_consumer import PushConsumer
from emberq.client.aio.queue_work import FlowLimits
from emberq.client.aio.transactions import Transaction
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
from emberq.client.hooks import Sending
from emberq.client.metrics import Metrics
from emberq.client.settings import ClientSettings
from emberq.errors import DeadLetter, RetryLater, SuspendQueue
from emberq.model.queue import MessageQueue
from emberq.model.subscription import ConsumeFromWhere, MessageModel
from emberq.record.system_flag import CompressionType

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
    "Transaction",
]
