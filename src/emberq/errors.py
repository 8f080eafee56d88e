"""The whole failure tree. Every error that EmberQ raises on purpose is one of these.

EmberqError
├── ConfigError               a configuration file or command line cannot be used as it is
├── ProtocolError             bytes that are not what the wire format says
│   └── FrameTooLarge         a frame above the agreed maximum
├── FilterError               a filter expression that cannot be used
├── RecordError               bytes that are not a message record
│   └── CompressionUnavailable  the body needs a codec that is not installed
├── StoreError                the store cannot do what was asked
│   ├── StoreDamaged          files that are not what they should be
│   ├── StoreInUse            another process has the directory
│   └── StoreFailed           a write or sync failed; nothing is acknowledged any more
├── RemotingError             the conversation with a peer failed
│   ├── ListenFailed          the server's address cannot be had
│   ├── ConnectFailed         no connection to the address
│   ├── ConnectionClosed      the connection ended before the answer came
│   ├── CallTimeout           the deadline of a call passed
│   └── TooManyPendingCalls   a named limit on calls in flight was reached
├── PipelineError             a job on Spark cannot go on
│   └── TableError            a table cannot be read or written as it is
├── ClientError               a client cannot do what was asked
│   ├── NoNameServer          none is configured, or none can be reached
│   ├── TopicNotFound         no name server knows a route
│   ├── MessageNotFound       no message has the id
│   ├── BrokerNotFound        a broker's address is not known
│   ├── OffsetOutOfRange      a queue does not have the message any more, or not yet
│   ├── DataLost              messages that a query was to read are gone
│   ├── ClientClosed          used before its start or after its end
│   ├── ForkedClient          used in another process than the one that made it
│   ├── MessageRefused        a message that no broker would take; nothing was sent
│   ├── SendFailed            all attempts to send a message failed
│   ├── RequestReplyTimeout   nobody replied in time
│   ├── ConsumeError          a handler did what handlers must not
│   ├── ConsumeControl        raised by handlers to say what becomes of a message
│   │   ├── RetryLater        deliver it again after a delay
│   │   ├── DeadLetter        never again: it goes to the dead letters
│   │   └── SuspendQueue      orderly consumers: pause the queue, then again
│   └── BrokerError           a broker's answer is a failure code
│       ├── SystemBusy        flow control: try again later
│       ├── NoPermission      the topic, the group or the user may not do this
│       ├── MessageIllegal    the broker refuses this message
│       ├── GroupNotFound     the broker does not know the group
│       └── SubscriptionUnknown  the broker does not know the subscription (yet)
└── RequestRejected           a handler's answer is a failure code (server side)
"""

from typing import Any


class EmberqError(Exception):
    """Root of all EmberQ errors."""


class ConfigError(EmberqError):
    """A configuration file, key or command line that cannot be used as it is."""


class ProtocolError(EmberqError):
    """Bytes that do not follow the wire format; the connection cannot be trusted any more."""


class FrameTooLarge(ProtocolError):
    """A frame whose announced size is above the maximum."""


class FilterError(EmberqError):
    """A subscription whose filter expression cannot be parsed or makes no sense."""


class RecordError(EmberqError):
    """Bytes that are not a valid message record, batch or message id."""


class CompressionUnavailable(RecordError):
    """A body needs a compression codec that is not installed."""


class StoreError(EmberqError):
    """The store cannot do what was asked."""


class StoreDamaged(StoreError):
    """Files of the store are not what they should be; the message names the file."""


class StoreInUse(StoreError):
    """Another process works on the same store directory."""


class StoreFailed(StoreError):
    """A write or a sync failed: what is not acknowledged yet never will be."""


class RemotingError(EmberqError):
    """The conversation with a peer failed; the message names the peer."""


class ListenFailed(RemotingError):
    """A server's address is taken, not ours, or not an address."""


class ConnectFailed(RemotingError):
    """No connection to the address could be made."""


class ConnectionClosed(RemotingError):
    """The connection ended before the answer came."""


class CallTimeout(RemotingError, TimeoutError):
    """The deadline of a call passed without an answer."""


class TooManyPendingCalls(RemotingError):
    """More calls are in flight than the limit allows; nothing was sent."""


class PipelineError(EmberqError):
    """A job on Spark that cannot start or go on."""


class TableError(PipelineError):
    """A table of files that cannot be read or written as it is."""


class ClientError(EmberqError):
    """A client cannot do what was asked; `hint` says what may help."""

    hint: str = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message.rstrip('.')}. {hint}" if hint else message)
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are pickled by their arguments; the text already holds the hint.
        return _unpickled, (type(self), self.args, self.__dict__)


class NoNameServer(ClientError):
    """No name server is configured, or none of them can be reached."""


class TopicNotFound(ClientError):
    """No name server knows where a topic is."""


class MessageNotFound(ClientError):
    """No message has the id, or not any more."""


class BrokerNotFound(ClientError):
    """The route names a broker, but no address of it that could be used."""


class OffsetOutOfRange(ClientError):
    """A queue was asked for a message before its first or behind its last."""

    def __init__(self, queue: str, offset: int, min_offset: int, max_offset: int) -> None:
        super().__init__(
            f"{queue} has no offset {offset}: its messages are {min_offset} to {max_offset}"
        )
        self.offset = offset
        self.min_offset = min_offset
        self.max_offset = max_offset


class DataLost(ClientError):
    """Messages that a query was to read are not there any more; the message says which."""


class ClientClosed(ClientError):
    """The client was not started yet, or is closed."""


class ForkedClient(ClientError):
    """The process was forked: connections and tasks stayed with the parent."""


class MessageRefused(ClientError, ValueError):
    """A message that no broker would take; nothing was sent."""


class SendFailed(ClientError):
    """All attempts to send a message failed; `attempts` says where and why.

    A message whose attempt timed out may be stored all the same: retries keep its id, so that
    consumers can tell.
    """

    def __init__(self, message: str, attempts: tuple[Exception, ...], *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.attempts = attempts


class RequestReplyTimeout(ClientError, TimeoutError):
    """The request was sent, and nobody replied in time."""


class ConsumeError(ClientError):
    """A handler did what handlers must not do; the message is delivered again."""


class ConsumeControl(ClientError):
    """Raised by a handler: what becomes of the message. Any other exception means RetryLater."""


class RetryLater(ConsumeControl):
    """Deliver the message again; level 0 leaves the delay to the broker."""

    def __init__(self, reason: str = "again later", *, delay_level: int = 0) -> None:
        super().__init__(reason)
        self.delay_level = delay_level


class DeadLetter(ConsumeControl):
    """The message will never be understood: put it among the dead letters of the group."""

    def __init__(self, reason: str = "never again") -> None:
        super().__init__(reason)


class SuspendQueue(ConsumeControl):
    """Pause the queue of an orderly consumer, then deliver the same message again."""

    def __init__(self, reason: str = "not now", *, seconds: float = 1.0) -> None:
        super().__init__(reason)
        self.seconds = seconds


class BrokerError(ClientError):
    """A broker answered with a failure code."""

    def __init__(self, code: int, remark: str | None, broker: str, *, hint: str = "") -> None:
        super().__init__(f"{broker} answered {code}: {remark or 'no reason given'}", hint=hint)
        self.code = code
        self.remark = remark or ""
        self.broker = broker


class SystemBusy(BrokerError):
    """The broker asks to come again later."""


class NoPermission(BrokerError):
    """The topic, the group or the user may not do this."""


class MessageIllegal(BrokerError):
    """The broker refuses this message, now and later."""


class SubscriptionUnknown(BrokerError):
    """The broker has not heard of the subscription, or only of an older one; it soon will."""


class GroupNotFound(BrokerError):
    """The broker does not know the consumer group and does not create groups."""


def _unpickled(
    kind: type[ClientError], arguments: tuple[Any, ...], state: dict[str, Any]
) -> ClientError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error


class RequestRejected(EmberqError):
    """Raised by a handler: answer the request with this response code and remark."""

    def __init__(self, code: int, remark: str, fields: dict[str, Any] | None = None) -> None:
        super().__init__(f"{remark} (code {code})")
        self.code = code
        self.remark = remark
        self.fields = fields
