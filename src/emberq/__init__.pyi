"""What `__init__.py` hands out by name."""

from emberq.client.aio.client import ClientHealth as ClientHealth
from emberq.client.aio.lag import Lag as Lag
from emberq.client.aio.queue_work import FlowLimits as FlowLimits
from emberq.client.blocking.client import Client as Client
from emberq.client.blocking.client import Producer as Producer
from emberq.client.blocking.consumers import PullConsumer as PullConsumer
from emberq.client.blocking.consumers import PushConsumer as PushConsumer
from emberq.client.blocking.transaction import Transaction as Transaction
from emberq.client.codecs import Codec as Codec
from emberq.client.core.allocation import Average as Average
from emberq.client.core.allocation import AverageByCircle as AverageByCircle
from emberq.client.core.allocation import ConsistentHash as ConsistentHash
from emberq.client.core.allocation import Fixed as Fixed
from emberq.client.core.allocation import MachineRoom as MachineRoom
from emberq.client.core.allocation import MachineRoomNearby as MachineRoomNearby
from emberq.client.core.message import Message as Message
from emberq.client.core.message import SendResult as SendResult
from emberq.client.core.message import SendStatus as SendStatus
from emberq.client.core.outgoing import Compression as Compression
from emberq.client.core.received import ReceivedMessage as ReceivedMessage
from emberq.client.credentials import Credentials as Credentials
from emberq.client.hooks import Sending as Sending
from emberq.client.log_handler import TopicLogHandler as TopicLogHandler
from emberq.client.metrics import Metrics as Metrics
from emberq.client.settings import ClientSettings as ClientSettings
from emberq.errors import DeadLetter as DeadLetter
from emberq.errors import EmberqError as EmberqError
from emberq.errors import RetryLater as RetryLater
from emberq.errors import SuspendQueue as SuspendQueue
from emberq.model.queue import MessageQueue as MessageQueue
from emberq.model.subscription import ConsumeFromWhere as ConsumeFromWhere
from emberq.model.subscription import MessageModel as MessageModel
from emberq.record.system_flag import CompressionType as CompressionType

__version__: str
__all__: list[str]
