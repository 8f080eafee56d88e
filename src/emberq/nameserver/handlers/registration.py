"""Brokers come, live and go (103, 104, 217, 322, 901, 904)."""

from collections.abc import Callable
from hashlib import sha256

from msgspec.structs import replace

from emberq.errors import RequestRejected
from emberq.model.data_version import DataVersion
from emberq.model.route import TopicRoute
from emberq.nameserver.config import NameServerConfig
from emberq.nameserver.departures import Departures
from emberq.nameserver.route_table import (
    BrokerKey,
    Registration,
    RegistrationRefused,
    RouteTable,
    Unregistration,
)
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.registration import checksum_matches, decode_registration
from emberq.protocol.bodies.routes import (
    BrokerMemberGroup,
    BrokerMemberGroupAnswer,
    KeyValueTable,
)
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.header_fields import to_fields
from emberq.protocol.headers.nameserver import (
    BrokerHeartbeat,
    QueryDataVersion,
    QueryDataVersionResponse,
    RegisterBroker,
    RegisterBrokerResponse,
    RegisterTopicInNameServer,
    UnregisterBroker,
)
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry, Request

# What official name servers put into an answer whose code nobody set.
CODE_NOT_SET_REMARK = "not set any response code"


class RegistrationHandlers:
    def __init__(
        self,
        table: RouteTable,
        departures: Departures,
        *,
        config: Callable[[], NameServerConfig],
        order_topics: Callable[[], dict[str, str] | None],
        now_ms: Callable[[], int],
        log_registered: Callable[[Registration, str], None],
    ) -> None:
        self._table = table
        self._departures = departures
        self._config = config
        self._order_topics = order_topics
        self._now_ms = now_ms
        self._log_registered = log_registered

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add_typed(RegisterBroker, self.register)
        registry.add_typed(UnregisterBroker, self.unregister)
        registry.add_typed(QueryDataVersion, self.query_data_version)
        registry.add_typed(BrokerHeartbeat, self.heartbeat)
        registry.add_typed(RegisterTopicInNameServer, self.register_topic)
        registry.add(RequestCode.GET_BROKER_MEMBER_GROUP, self.get_member_group)

    def register(self, request: Request[RegisterBroker]) -> Command:
        header, command = request.header, request.command
        if not checksum_matches(request.body, header.body_crc32):
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "crc32 not match", {})
        self._departures.settle()
        deletes_absent_topics = self._config().delete_topic_with_broker_registration
        registration = self._registration(header, command, may_repeat=not deletes_absent_topics)
        try:
            registered = self._table.register(
                registration,
                request.connection,
                self._now_ms(),
                deletes_absent_topics=deletes_absent_topics,
            )
        except RegistrationRefused:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "register broker failed", {}) from None
        request.connection.session = self._departures  # its end is the brokers' end
        if registered.is_first:
            self._log_registered(registration, request.connection.peer)
        fields = to_fields(
            RegisterBrokerResponse(
                ha_server_address=registered.ha_address, master_address=registered.master_address
            )
        )
        return answer(command, fields=fields, body=self._order_body())

    def _registration(
        self, header: RegisterBroker, command: Command, *, may_repeat: bool
    ) -> Registration:
        """What a broker says; a table of 10,000 topics that is known already is not read again."""
        fingerprint = _fingerprint(header, command)
        said = _said_in_header(header, fingerprint)
        if may_repeat:
            version = self._table.repeated_version(
                said.key, header.broker_name, header.broker_id, fingerprint
            )
            if version is not None:
                return replace(said, version=version, is_repetition=True)
        body = decode_registration(
            command.body, is_compressed=header.is_compressed, version=command.version
        )
        table = body.topic_table
        return replace(
            said,
            version=table.data_version,
            topics=table.topics,
            queue_mappings=table.mappings or {},
            filter_servers=body.filter_servers,
        )

    def unregister(self, request: Request[UnregisterBroker]) -> Command:
        header = request.header
        leaving = Unregistration(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_id=header.broker_id,
            address=header.broker_address,
        )
        if not self._departures.add([leaving], reason="unregistered"):
            return answer(
                request.command,
                ResponseCode.SYSTEM_ERROR,
                "too many brokers are leaving, try again",
            )
        return answer(request.command)

    def query_data_version(self, request: Request[QueryDataVersion]) -> Command:
        header = request.header
        key = BrokerKey(header.cluster_name, header.broker_address)
        asked = decode_body(DataVersion, request.body) if request.body else None
        known = self._table.version_of(key)
        self._table.touch(key, self._now_ms())
        fields = to_fields(QueryDataVersionResponse(is_changed=known is None or known != asked))
        body = b"" if known is None else encode_body(known)
        return answer(request.command, fields=fields, body=body)

    def heartbeat(self, request: Request[BrokerHeartbeat]) -> Command:
        header = request.header
        self._table.touch(BrokerKey(header.cluster_name, header.broker_address), self._now_ms())
        return answer(request.command)

    def register_topic(self, request: Request[RegisterTopicInNameServer]) -> Command:
        route = decode_body(TopicRoute, request.body) if request.body else None
        if route is not None and route.queues:
            self._table.register_topic(request.header.topic, route.queues)
        return answer(request.command)

    def get_member_group(self, command: Command, _: Connection) -> Command:
        fields = command.fields or {}
        broker_name = fields.get("brokerName")
        broker = self._table.broker(broker_name) if broker_name is not None else None
        group = BrokerMemberGroup(
            addresses={} if broker is None else broker.addresses,
            broker_name=broker_name,
            cluster=fields.get("clusterName"),
        )
        body = encode_body(BrokerMemberGroupAnswer(group=group))
        return answer(command, remark=CODE_NOT_SET_REMARK, body=body)

    def _order_body(self) -> bytes:
        """Ordered topics, which brokers mark as such; nothing if there never was one."""
        if not self._config().return_order_topic_config_to_broker:
            return b""
        entries = self._order_topics()
        return b"" if entries is None else encode_body(KeyValueTable(table=entries))


def _fingerprint(header: RegisterBroker, command: Command) -> bytes:
    """Of the body and of all that decides how it is read."""
    digest = sha256(f"{header.is_compressed} {command.version} ".encode())
    digest.update(command.body)
    return digest.digest()


def _said_in_header(header: RegisterBroker, fingerprint: bytes) -> Registration:
    return Registration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_address,
        ha_address=header.ha_server_address,
        timeout_ms=header.heartbeat_timeout_ms,
        is_acting_master_enabled=header.is_acting_master_enabled,
        zone_name=header.zone_name,
        fingerprint=fingerprint,
    )
