"""A tool's connection to a cluster."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from emberq.admin.traces import MessageTrace, traces_of
from emberq.client.aio.at_hand import AtHand
from emberq.client.aio.client import Client
from emberq.errors import MessageNotFound, RecordError, RemotingError
from emberq.model.system_topics import TRACE_TOPIC
from emberq.protocol.headers.transactions import ResumeCheckHalfMessage
from emberq.record.host import format_host
from emberq.record.message_id import parse_offset_id

# What one broker returns at most (maxMsgsNumBatch).
TRACE_MESSAGES_MAX = 64
# Messages with a key that are looked up by their ids as well.
TRACED_AGAIN_MAX = 32


class Admin(AtHand):
    """Use it as `async with Admin("localhost:9876") as admin:`.

    Topics, offsets and messages at hand are those of every client.
    """

    def __init__(
        self, name_server: str | Sequence[str] | None = None, *, client: Client | None = None
    ) -> None:
        """`client` is one to share; else this has its own, as `Client(name_server)`."""
        self._is_own = client is None
        self.client = client or Client(name_server)

    async def __aenter__(self) -> Self:
        await self.client.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_own:
            await self.client.close()

    async def trace(self, id_or_key: str, *, trace_topic: str = TRACE_TOPIC) -> list[MessageTrace]:
        """What clients recorded of messages: of the one with an id, the producer's or the
        broker's, or of all with a key; the oldest first.

        Raises:
            MessageNotFound: no trace names it.
            TopicNotFound: no broker has the trace topic.
            ClientError: no broker could be asked.
        """
        found = await self.query_messages(trace_topic, id_or_key, count=TRACE_MESSAGES_MAX)
        name = id_or_key
        if not found and (message_id := await self._message_id(id_or_key)) is not None:
            name = message_id
            found = await self.query_messages(trace_topic, name, count=TRACE_MESSAGES_MAX)
        traces = traces_of(found, name)
        for trace in traces[:TRACED_AGAIN_MAX]:
            if trace.message_id != name:  # not all that is known of a message names its keys
                found += await self.query_messages(
                    trace_topic, trace.message_id, count=TRACE_MESSAGES_MAX
                )
        traces = traces_of(found, name)
        if not traces:
            raise MessageNotFound(
                f"no trace of {id_or_key} in {trace_topic}",
                hint="Do its clients trace, and is the trace old enough to be indexed?",
            )
        return traces

    async def resume_transaction(self, offset_message_id: str) -> None:
        """Let the producers of a half message be asked about it again, as if for the first time;
        for one that was given up, by its broker's id in `TRANS_CHECK_MAX_TIME_TOPIC`.

        Raises:
            RecordError: that is no broker's id.
            BrokerError: it is no half message.
            RemotingError
        """
        host, _ = parse_offset_id(offset_message_id)
        header = ResumeCheckHalfMessage(message_id=offset_message_id)
        await self.client.call(format_host(host), self.client.request(header))

    async def _message_id(self, offset_message_id: str) -> str | None:
        """The producer's id of the message with a broker's id; None: there is no such message."""
        try:
            parse_offset_id(offset_message_id)
            return (await self.view_message(offset_message_id)).message_id
        except (RecordError, MessageNotFound, RemotingError):
            return None
