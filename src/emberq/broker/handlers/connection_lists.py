"""Who is connected: consumers of a group (203), producers of one (204) and of all (328)."""

from collections.abc import Callable
from typing import cast

from emberq.broker.members import Consumers, Member
from emberq.broker.producers import Producers
from emberq.errors import RequestRejected
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.connections import (
    ClientConnection,
    ConsumerConnections,
    ProducerClient,
    ProducerConnections,
    ProducerTable,
)
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.headers.groups import GetConsumerConnectionList, GetProducerConnectionList
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry, Request


class ConnectionListHandlers:
    def __init__(
        self,
        consumers: Consumers,
        producers: Producers,
        *,
        now_ms: Callable[[], int],
        steady_ms: Callable[[], int],
    ) -> None:
        self._consumers = consumers
        self._producers = producers
        self._now_ms = now_ms
        self._steady_ms = steady_ms

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add_typed(GetConsumerConnectionList, self.list_consumers)
        registry.add_typed(GetProducerConnectionList, self.list_producers)
        registry.add(RequestCode.GET_ALL_PRODUCER_INFO, self.list_all_producers)

    def list_consumers(self, request: Request[GetConsumerConnectionList]) -> Command:
        name = request.header.consumer_group
        group = self._consumers.get(name)
        if group is None:
            raise RequestRejected(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online"
            )
        connections = ConsumerConnections(
            connections=[_connection(member) for member in group.members.values()],
            consume_from_where=group.consume_from_where,
            consume_type=group.consume_type,
            message_model=group.message_model,
            subscriptions=group.subscriptions,
        )
        return answer(request.command, body=encode_body(connections))

    def list_producers(self, request: Request[GetProducerConnectionList]) -> Command:
        name = request.header.producer_group
        members = self._producers.members(name)
        if not members:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist"
            )
        connections = [_connection(member) for member in members]
        return answer(
            request.command, body=encode_body(ProducerConnections(connections=connections))
        )

    def list_all_producers(self, command: Command, connection: Connection) -> Command:
        steady_clock_offset_ms = self._now_ms() - self._steady_ms()
        groups = {
            name: [
                _producer(member, member.seen_at_ms + steady_clock_offset_ms)
                for member in self._producers.members(name)
            ]
            for name in self._producers.groups()
        }
        return answer(command, body=encode_body(ProducerTable(groups=groups)))


def _connection(member: Member) -> ClientConnection:
    return ClientConnection(
        client_address=_peer(member),
        client_id=member.client_id,
        language=member.language,
        version=member.version,
    )


def _producer(member: Member, seen_at_ms: int) -> ProducerClient:
    return ProducerClient(
        client_id=member.client_id,
        language=member.language,
        last_seen_at_ms=seen_at_ms,
        client_address=f"/{_peer(member)}",  # with the slash that Java writes before addresses
        version=member.version,
    )


def _peer(member: Member) -> str:
    return cast(Connection, member.connection).peer
