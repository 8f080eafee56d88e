"""Replies (324, 325): pushed to the client that waits for them (326), then stored.

The replier hears how the push went; whether the reply is stored besides is not its business.
"""

import logging
from collections.abc import Callable
from typing import cast

from emberq.broker.appending import Appender, OutgoingMessage, PutCounter, is_wait_wanted
from emberq.broker.durable import until_durable
from emberq.broker.handlers.send import REJECTED_REMARK
from emberq.broker.handlers.send_fields import (
    is_true,
    optional_number,
    read_send,
    shortened,
)
from emberq.broker.handlers.send_targets import SendTargets, any_queue, illegal_queue
from emberq.broker.producers import Producers
from emberq.broker.settings import Settings
from emberq.errors import ProtocolError, RemotingError, RequestRejected
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer, new_request
from emberq.protocol.header_fields import to_fields
from emberq.protocol.headers.reply import PushReplyMessageToClient
from emberq.record.host import PackedHost, format_host
from emberq.record.message_id import make_offset_id
from emberq.record.properties import format_properties, parse_properties
from emberq.record.property_names import (
    MESSAGE_REGION,
    PUSH_REPLY_TIME,
    REPLY_TO_CLIENT,
    TRACE_ON,
)
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry
from emberq.store.message_store import MessageStore

log = logging.getLogger(__name__)

PUSH_TIMEOUT_S = 10.0
# Of a reply that was pushed and not stored.
NO_MESSAGE_ID = "0"


class SendReplyHandler:
    def __init__(
        self,
        *,
        settings: Settings,
        targets: SendTargets,
        producers: Producers,
        store: MessageStore,
        store_host: PackedHost,
        appender: Appender,
        statistics: PutCounter,
        now_ms: Callable[[], int],
        push_timeout_s: float = PUSH_TIMEOUT_S,
    ) -> None:
        self._settings = settings
        self._targets = targets
        self._producers = producers
        self._store = store
        self._store_host = store_host
        self._appender = appender
        self._statistics = statistics
        self._now_ms = now_ms
        self._push_timeout_s = push_timeout_s

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.SEND_REPLY_MESSAGE, self.reply_long)
        registry.add(RequestCode.SEND_REPLY_MESSAGE_V2, self.reply)

    async def reply_long(self, command: Command, connection: Connection) -> Command:
        """The form with long names (324)."""
        command.fields = shortened(command.fields or {})
        return await self.reply(command, connection)

    async def reply(self, command: Command, connection: Connection) -> Command:
        """The form with one-letter names (325)."""
        fields = command.fields = {"b": "", **(command.fields or {})}
        topic, queue_id, system_flag, born_at_ms, flag, text, reconsume_times, _ = read_send(fields)
        if self._store.is_busy:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, REJECTED_REMARK)
        config = self._settings.config
        added = {
            MESSAGE_REGION: config.region_id,
            TRACE_ON: "true" if config.trace_on else "false",
        }
        target = self._targets.get(topic) or self._targets.find(topic, fields, added)
        if queue_id >= target.queue_count:
            raise illegal_queue(queue_id, target.config, connection.peer, added)
        message = OutgoingMessage(
            topic=topic,
            queue_id=any_queue(target) if queue_id < 0 else queue_id,
            body=command.body,
            properties=parse_properties(text) | added,
            born_host=connection.packed_peer,
            born_at_ms=born_at_ms,
            flag=flag,
            reconsume_times=reconsume_times,
        )
        trouble = await self._push(fields, message, connection, queue_id, system_flag)
        placed: dict[str, str] = {}
        if trouble is None:
            placed = _place(NO_MESSAGE_ID, message.queue_id, 0)
        if config.store_reply_message_enable:
            placed = await self._put(message) or placed
        code = ResponseCode.SUCCESS if trouble is None else ResponseCode.SYSTEM_ERROR
        return answer(command, code, trouble, placed | added)

    async def _push(
        self,
        fields: dict[str, str],
        message: OutgoingMessage,
        connection: Connection,
        queue_id: int,
        system_flag: int,
    ) -> str | None:
        """Give the reply to who waits for it; returns why that failed, in the official words."""
        client_id = message.properties.get(REPLY_TO_CLIENT)
        if client_id is None:
            return f"reply message properties[{REPLY_TO_CLIENT}] is null"
        member = self._producers.by_client_id(client_id)
        if member is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        now_ms = self._now_ms()
        header = PushReplyMessageToClient(
            producer_group=fields.get("a", ""),
            topic=message.topic,
            default_topic=fields.get("c", ""),
            default_topic_queue_count=optional_number(fields, "d") or 0,
            queue_id=queue_id,
            system_flag=system_flag,
            born_at_ms=message.born_at_ms,
            flag=message.flag,
            properties=format_properties({PUSH_REPLY_TIME: str(now_ms)} | message.properties),
            reconsume_times=message.reconsume_times,
            is_unit_mode=is_true(fields, "k"),
            born_host=connection.peer,
            store_host=format_host(self._store_host),
            stored_at_ms=now_ms,
        )
        request = new_request(
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, to_fields(header), bytes(message.body)
        )
        failure = f"push reply message to {client_id}fail."
        try:
            taken = await cast(Connection, member.connection).call(request, self._push_timeout_s)
        except (RemotingError, ProtocolError) as error:
            log.warning("reply_not_pushed client=%s reason=%s", client_id, error)
            return failure
        if taken.code != ResponseCode.SUCCESS:
            log.warning("reply_not_taken client=%s remark=%s", client_id, taken.remark)
            return failure
        return None

    async def _put(self, message: OutgoingMessage) -> dict[str, str] | None:
        """Store the reply; where it went, or None: the store did not take it."""
        appended = self._appender.put(message)
        result = appended.result
        if not result.status.is_stored:
            log.warning("reply_not_stored reason=%s", result.reason or result.status.name)
            return None
        self._statistics.count_put(appended.topic, appended.queue_id, 1, appended.size)
        if self._store.config.is_sync_flush and is_wait_wanted(message.properties):
            # Or not in time: a reply that was pushed needs no disk.
            await until_durable(self._store, result.end_offset)
        message_id = make_offset_id(self._store_host, result.log_offset)
        return _place(message_id, message.queue_id, result.queue_offset)


def _place(message_id: str, queue_id: int, queue_offset: int) -> dict[str, str]:
    return {
        "msgId": message_id,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
    }
