"""Questions of tools that only a client can answer: the broker asks it and passes its answer on.

What a consumer is doing (307), what it does with a message (309), where it is in its queues (223).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import cast

from emberq.broker.groups import Groups
from emberq.broker.members import Consumers, Member
from emberq.broker.topics import Topics
from emberq.errors import CallTimeout, ProtocolError, RecordError, RemotingError, RequestRejected
from emberq.model.queue import MessageQueue
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.offsets import ConsumerStatus
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import RESPONSE_BIT, Command, answer, new_request
from emberq.protocol.header_fields import to_fields
from emberq.protocol.headers.groups import ConsumeMessageDirectly
from emberq.protocol.headers.reset_offset import (
    GetConsumerStatusFromClient,
    InvokeBrokerToGetConsumerStatus,
)
from emberq.protocol.versions import V3_0_7_SNAPSHOT, V3_1_8_SNAPSHOT, version_name
from emberq.record.message_id import parse_offset_id
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry, Request

log = logging.getLogger(__name__)

CALL_TIMEOUT_S = 10.0
STATUS_TIMEOUT_S = 5.0
# Clients of one group that are asked for their status at the same time.
STATUS_CALLS_MAX = 64
# What official brokers put into an answer whose code nobody set.
CODE_NOT_SET_REMARK = "not set any response code"


class ClientCallHandlers:
    def __init__(
        self,
        *,
        consumers: Consumers,
        topics: Topics,
        groups: Groups,
        record_at: Callable[[int], Awaitable[bytes | None]],
        broker_name: str,
        call_timeout_s: float = CALL_TIMEOUT_S,
        status_timeout_s: float = STATUS_TIMEOUT_S,
    ) -> None:
        self._consumers = consumers
        self._topics = topics
        self._groups = groups
        self._record_at = record_at
        self._broker_name = broker_name
        self._call_timeout_s = call_timeout_s
        self._status_timeout_s = status_timeout_s

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.GET_CONSUMER_RUNNING_INFO, self.get_running_info)
        registry.add_typed(ConsumeMessageDirectly, self.consume_directly)
        registry.add_typed(InvokeBrokerToGetConsumerStatus, self.get_status)

    async def get_running_info(self, command: Command, connection: Connection) -> Command:
        """Without a typed header, for a question without a client id gets an answer too."""
        fields = dict(command.fields or {})
        group, client_id = fields.get("consumerGroup"), fields.get("clientId")
        if group is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "a consumer group is missing")
        return await self._pass_on(command, fields, command.body, group, client_id)

    async def consume_directly(self, request: Request[ConsumeMessageDirectly]) -> Command:
        header, command = request.header, request.command
        fields = {**(command.fields or {}), "brokerName": self._broker_name}
        topic = self._topics.get(header.topic) if header.topic else None
        if topic is not None:
            fields["topicSysFlag"] = str(topic.system_flag)
        group = self._groups.find(header.consumer_group)
        if group is not None:
            fields["groupSysFlag"] = str(group.system_flag)
        try:
            _, log_offset = parse_offset_id(header.message_id or "")
        except RecordError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        record = await self._record_at(log_offset)
        if record is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"no message has the id {header.message_id}"
            )
        return await self._pass_on(command, fields, record, header.consumer_group, header.client_id)

    async def get_status(self, request: Request[InvokeBrokerToGetConsumerStatus]) -> Command:
        header = request.header
        group = self._consumers.get(header.group)
        if group is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"No Any Consumer online in the consumer group: [{header.group}]",
            )
        asked = []
        wanted_id = (header.client_id or "").strip()
        for member in group.members.values():
            check_is_new_enough(member)
            if wanted_id in ("", member.client_id):
                asked.append(member)
                if wanted_id:
                    break
        fields = to_fields(GetConsumerStatusFromClient(topic=header.topic, group=header.group))
        table = {}
        for start in range(0, len(asked), STATUS_CALLS_MAX):
            members = asked[start : start + STATUS_CALLS_MAX]
            found = await asyncio.gather(*(self._status_of(member, fields) for member in members))
            for member, offsets in zip(members, found, strict=True):
                if offsets is not None:
                    table[member.client_id] = offsets
        body = encode_body(ConsumerStatus(by_client=table))
        return answer(request.command, remark=CODE_NOT_SET_REMARK, body=body)

    async def _status_of(
        self, member: Member, fields: dict[str, str]
    ) -> dict[MessageQueue, int] | None:
        call = new_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, dict(fields))
        try:
            response = await _connection(member).call(call, self._status_timeout_s)
            if response.code != ResponseCode.SUCCESS or not response.body:
                return None
            return decode_body(ConsumerStatus, response.body).offsets
        except (RemotingError, ProtocolError) as error:
            log.warning("client_status_missing client=%s reason=%s", member.client_id, error)
            return None

    async def _pass_on(
        self,
        command: Command,
        fields: dict[str, str],
        body: bytes,
        group: str,
        client_id: str | None,
    ) -> Command:
        """Ask the client; its answer goes back as it is but for the number of the question."""
        who = f"<{group}> <{'null' if client_id is None else client_id}>"
        member = self._consumers.member(group, client_id)
        if member is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"The Consumer {who} not online")
        if member.version < V3_1_8_SNAPSHOT:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{version_name(member.version)}> too low to "
                "finish, please upgrade it to V3_1_8_SNAPSHOT",
            )
        try:
            response = await _connection(member).call(
                new_request(command.code, fields, body), self._call_timeout_s
            )
        except CallTimeout as error:
            raise RequestRejected(
                ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer {who} Timeout: {error}"
            ) from None
        except (RemotingError, ProtocolError) as error:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"invoke consumer {who} Exception: {error}"
            ) from None
        response.opaque = command.opaque
        response.encoding = command.encoding
        response.flag = RESPONSE_BIT
        return response


def check_is_new_enough(member: Member) -> None:
    """For pushed offsets and status; every client that still runs is."""
    if member.version < V3_0_7_SNAPSHOT:
        raise RequestRejected(
            ResponseCode.SYSTEM_ERROR,
            f"the client does not support this feature. version={version_name(member.version)}",
        )


def _connection(member: Member) -> Connection:
    return cast(Connection, member.connection)
