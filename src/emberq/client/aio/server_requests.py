"""Requests that brokers send to clients, passed to the group that they are meant for."""

import logging
from collections.abc import Mapping

from emberq.client.aio.parts import ConsumerPart, ProducerPart
from emberq.client.aio.request_reply import PendingReplies
from emberq.errors import RecordError
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.record.decode import decode_record
from emberq.record.properties import find_stored_property
from emberq.record.property_names import PRODUCER_GROUP
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry

log = logging.getLogger(__name__)

_PRODUCER_GROUP_NAME = PRODUCER_GROUP.encode()


class ServerRequests:
    """One table of handlers for all connections of a client."""

    def __init__(
        self, producers: Mapping[str, ProducerPart], consumers: Mapping[str, ConsumerPart]
    ) -> None:
        self._producers = producers
        self._consumers = consumers
        self.replies = PendingReplies()
        self.registry = HandlerRegistry()
        self.registry.add(RequestCode.CHECK_TRANSACTION_STATE, self._check_transaction)
        self.registry.add(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._group_changed)
        self.registry.add(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._reset_offsets)
        self.registry.add(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._tell_offsets)
        self.registry.add(RequestCode.GET_CONSUMER_RUNNING_INFO, self._tell_running)
        self.registry.add(RequestCode.CONSUME_MESSAGE_DIRECTLY, self._consume_directly)
        self.registry.add(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._reply_arrived)

    async def _check_transaction(self, request: Command, connection: Connection) -> None:
        try:
            record = decode_record(request.body)
        except RecordError as error:
            log.warning("transaction_check_unreadable broker=%s reason=%s", connection.peer, error)
            return
        group = find_stored_property(record.properties, _PRODUCER_GROUP_NAME)
        part = self._producers.get((group or b"").decode("utf-8", "replace"))
        if part is None:
            log.warning("transaction_check_unknown broker=%s group=%s", connection.peer, group)
            return
        await part.check_transaction(request, connection.peer)

    def _group_changed(self, request: Command, connection: Connection) -> None:
        for part in self._consumers.values():
            part.share_out_soon()

    async def _reset_offsets(self, request: Command, connection: Connection) -> None:
        part = self._consumers.get((request.fields or {}).get("group", ""))
        if part is not None:
            await part.reset_offsets(request)

    def _tell_offsets(self, request: Command, connection: Connection) -> Command:
        part = self._consumers.get((request.fields or {}).get("group", ""))
        return _no_such_group(request) if part is None else part.offsets_answer(request)

    async def _tell_running(self, request: Command, connection: Connection) -> Command:
        part = self._consumers.get((request.fields or {}).get("consumerGroup", ""))
        return _no_such_group(request) if part is None else await part.running_answer(request)

    async def _consume_directly(self, request: Command, connection: Connection) -> Command:
        part = self._consumers.get((request.fields or {}).get("consumerGroup", ""))
        return _no_such_group(request) if part is None else await part.direct_answer(request)

    def _reply_arrived(self, request: Command, connection: Connection) -> Command:
        self.replies.take(request, connection.peer)
        return answer(request)  # also when nobody waits any more


def _no_such_group(request: Command) -> Command:
    return answer(
        request, ResponseCode.SYSTEM_ERROR, "The Consumer Group not exist in this consumer"
    )
