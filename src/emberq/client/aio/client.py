"""The client: name servers, routes, connections and heartbeats, shared by producers and consumers.

Producers and consumers make their own unless they are given one.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import Enum, auto
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from emberq.client.aio.connections import Connections
from emberq.client.aio.heartbeats import Heartbeats
from emberq.client.aio.life import Life
from emberq.client.aio.name_servers import NameServers, configured_servers
from emberq.client.aio.parts import ConsumerPart, ProducerPart
from emberq.client.aio.routes import Routes
from emberq.client.aio.server_requests import ServerRequests
from emberq.client.broker_failures import broker_failure
from emberq.client.core import namespaces
from emberq.client.core.topic_queues import (
    PublishQueues,
    publish_queues,
    subscribe_queues,
    template_route,
)
from emberq.client.credentials import Credentials, Signing
from emberq.client.identity import (
    ProcessGuard,
    client_id,
    key_generator,
    unique_instance_name,
)
from emberq.client.metrics import Measures, Metrics
from emberq.client.namespace_fields import InNamespace
from emberq.client.settings import ClientSettings
from emberq.errors import (
    BrokerNotFound,
    ClientClosed,
    ClientError,
    ConfigError,
    NoNameServer,
    RemotingError,
    TopicNotFound,
)
from emberq.model.queue import MessageQueue
from emberq.model.route import MASTER_ID, TopicRoute
from emberq.model.system_topics import DEFAULT_TOPIC
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command, new_request
from emberq.protocol.header_fields import Header, to_fields
from emberq.remoting.addresses import join_address, local_address, split_address
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.hooks import CallHook
from emberq.remoting.limits import RemotingLimits

log = logging.getLogger(__name__)

VIP_PORT_DISTANCE = 2
TOPIC_QUEUES_DEFAULT = 4


class ClientState(Enum):
    NEW = auto()
    RUNNING = auto()
    CLOSED = auto()


_RUNNING = ClientState.RUNNING  # to find a member of an enum takes time


class ClientHealth(Struct, frozen=True, kw_only=True):
    """What a probe wants to know."""

    is_running: bool
    # The last question to a name server was answered; questions come every 30 seconds at least.
    is_name_server_reachable: bool
    connected: list[str]
    # Masters of topics in use that there is no connection to.
    unreachable: list[str]
    producer_groups: list[str]
    consumer_groups: list[str]

    @property
    def is_healthy(self) -> bool:
        """Not before the first answer; while some broker is there that can be used."""
        has_broker = bool(self.connected) or not self.unreachable
        return self.is_running and self.is_name_server_reachable and has_broker


class Client(Life):
    """Use it as `async with Client("localhost:9876") as client:`."""

    def __init__(
        self,
        name_server: str | Sequence[str] | None = None,
        *,
        credentials: Credentials | None = None,
        tls: bool | ssl.SSLContext = False,
        namespace: str | None = None,
        namespace_v2: str | None = None,
        instance_name: str | None = None,
        unit_name: str | None = None,
        client_ip: str | None = None,
        is_vip_channel: bool = False,
        settings: ClientSettings | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """
        Args:
            name_server: `host:port`, several separated by `;`; else the environment's
                NAMESRV_ADDR; else they are looked up where official clients look.
            tls: True accepts any certificate, as official clients do; a context decides itself.
            namespace: is put in front of topics and groups; users never see it.
            namespace_v2: goes with every request instead; proxies and clouds look at it.
            instance_name: makes the client's id; needed only where it must survive a restart.
            metrics: is told what happens on this client, for counters and timings.
        """
        self.settings = settings or ClientSettings()
        self.measures = None if metrics is None else Measures(metrics)
        self.namespace = namespace
        self._servers_given = configured_servers(name_server)
        self._unit_name = unit_name
        self.is_vip_channel = is_vip_channel
        self._guard = ProcessGuard()
        ip = client_ip or local_address()
        self.client_id = client_id(ip, instance_name or unique_instance_name(), unit_name)
        self.keys = key_generator(ip)
        self.producers: dict[str, ProducerPart] = {}
        self.consumers: dict[str, ConsumerPart] = {}
        self.server_requests = ServerRequests(self.producers, self.consumers)
        self._endpoint = Endpoint(
            self.server_requests.registry,
            limits=replace(RemotingLimits(), connect_timeout_s=self.settings.connect_timeout),
            hooks=_request_hooks(namespace_v2, credentials),
        )
        self.connections = Connections(
            self._endpoint, _tls_context(tls), on_connected=self._connected
        )
        self.name_servers = NameServers(self.connections, self._servers_given)
        self.routes = Routes(self.name_servers, self.settings.api_timeout)
        self.heartbeats = Heartbeats(
            self.client_id,
            self.connections,
            self.routes,
            self.producers,
            self.consumers,
            self.settings.api_timeout,
            is_v2=self.settings.is_heartbeat_v2,
        )
        self._topics: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting: asyncio.Lock | None = None
        self._state = ClientState.NEW

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """`rocketmq://access:secret@host1:9876,host2:9876/namespace?tls=1`."""
        parts = urlsplit(url)
        if parts.scheme != "rocketmq" or not parts.netloc:
            raise ConfigError(f"{url!r}: expected rocketmq://host:9876")
        user, _, hosts = parts.netloc.rpartition("@")
        if user:
            access, _, secret = user.partition(":")
            options.setdefault("credentials", Credentials(unquote(access), unquote(secret)))
        if parts.path.strip("/"):
            options.setdefault("namespace", unquote(parts.path.strip("/")))
        if parse_qs(parts.query).get("tls", ["0"])[0] in ("1", "true"):
            options.setdefault("tls", True)
        return cls(hosts.replace(",", ";"), **options)

    # Life

    async def start(self) -> None:
        """Begin; a second call does nothing.

        Raises:
            NoNameServer: none is configured and none can be looked up.
        """
        self._guard.check()
        if self._state is ClientState.CLOSED:
            raise ClientClosed("this client is closed", hint="Make a new one")
        if self._starting is None:
            self._starting = asyncio.Lock()
        async with self._starting:
            if self._state is ClientState.RUNNING:
                return
            if not self._servers_given:
                await self._discover()
                self.spawn(self._repeat(self.settings.discovery, self._discover), "discovery")
            self._state = ClientState.RUNNING
            self.spawn(self._refresh_routes(), "first-routes")
            self.spawn(self._repeat(self.settings.route_refresh, self._refresh_routes), "routes")
            self.spawn(self._repeat(self.settings.heartbeat, self.heartbeats.beat), "heartbeats")

    async def close(self) -> None:
        """Stop everything; producers and consumers that use it should be closed before."""
        if self._state is ClientState.CLOSED:
            return
        self._state = ClientState.CLOSED
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.heartbeats.close()
        await self.routes.close()
        await self.connections.close()

    def health(self) -> ClientHealth:
        """What is known, without asking anybody."""
        connected = set(self.connections.addresses())
        masters = {address for *_, address in self.routes.all_addresses(only_masters=True)}
        return ClientHealth(
            is_running=self._state is ClientState.RUNNING,
            is_name_server_reachable=self.name_servers.is_answering is True,
            connected=sorted(connected.difference(self.name_servers.addresses)),
            unreachable=sorted(masters - connected),
            producer_groups=sorted(self.producers),
            consumer_groups=sorted(self.consumers),
        )

    def check_running(self) -> None:
        """Raises ClientClosed, ForkedClient."""
        if self._guard.is_forked:
            self._guard.check()
        if self._state is not _RUNNING:
            raise ClientClosed(
                "the client is not running",
                hint="Use 'async with', or call start() first and close() last",
            )

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Run something until it ends or the client closes; its failure is logged."""
        task = asyncio.get_running_loop().create_task(work, name=f"emberq-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    # Names

    def wrap(self, name: str) -> str:
        return namespaces.wrap(self.namespace, name) if self.namespace else name

    def unwrap(self, name: str) -> str:
        return namespaces.unwrap(self.namespace, name)

    # Groups

    async def add_producer(self, group: str, part: ProducerPart) -> None:
        """Raises ClientError if the group is in use on this client."""
        self._add(self.producers, group, part, "producer")
        await self.heartbeats.beat()

    async def remove_producer(self, group: str) -> None:
        if self.producers.pop(group, None) is not None:
            await self.heartbeats.leave(producer_group=group)

    def add_consumer(self, group: str, part: ConsumerPart) -> None:
        """Raises ClientError if the group is in use on this client."""
        self._add(self.consumers, group, part, "consumer")

    async def remove_consumer(self, group: str) -> None:
        if self.consumers.pop(group, None) is not None:
            await self.heartbeats.leave(consumer_group=group)

    # Topics

    def watch(self, topic: str) -> None:
        """Keep a topic's route fresh."""
        self._topics.add(topic)

    def forget(self, topic: str) -> None:
        """A topic that is gone, unless producers or consumers of this client go on with what is
        known: name servers forget the topics of a broker that is away for a moment, too."""
        if not self.producers and not self.consumers:
            self._topics.discard(topic)
            self.routes.forget(topic)

    async def publish_queues(
        self,
        topic: str,
        *,
        template: str | None = DEFAULT_TOPIC,
        queue_count: int = TOPIC_QUEUES_DEFAULT,
    ) -> PublishQueues:
        """Where a topic can be written; a topic that does not exist yet is where its template is,
        if one is named.

        Raises:
            NoNameServer, TopicNotFound
        """
        known = self.routes.known_publish_queues(topic)
        if known is None or (template is None and self.routes.is_of_template(topic)):
            route = await self._route_to_publish(topic, template, queue_count)
            known = publish_queues(topic, route)
        return known

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Raises NoNameServer, TopicNotFound."""
        self.watch(topic)
        return subscribe_queues(topic, await self.routes.get(topic))

    def refresh_soon(self, topic: str) -> None:
        """A broker of the topic is in trouble: its route may have changed."""
        if self._state is ClientState.RUNNING and not self.routes.is_asking(topic):
            self.spawn(self.routes.refresh_all([topic]), "route")

    async def _route_to_publish(
        self, topic: str, template: str | None, queue_count: int
    ) -> TopicRoute:
        try:
            route = await self.routes.refresh(topic)
        except TopicNotFound as missing:
            if template is None:
                raise
            try:
                model = await self.routes.get(template)
            except TopicNotFound:
                raise missing from None
            route = template_route(model, queue_count)
            self.routes.put_template(topic, route)
        self.watch(topic)
        return route

    # Brokers

    async def broker_address(
        self, broker_name: str, broker_id: int = MASTER_ID, *, is_vip: bool = False
    ) -> str:
        """The address of a master, or of any member where another id is asked for.

        Raises:
            BrokerNotFound
        """
        address = self._address(broker_name, broker_id)
        if address is None:
            await self.routes.refresh_all(self._topics)
            address = self._address(broker_name, broker_id)
        if address is None:
            role = "master" if broker_id == MASTER_ID else f"member {broker_id}"
            raise BrokerNotFound(f"no address of the {role} of {broker_name} is known")
        if is_vip and self.is_vip_channel:
            host, port = split_address(address)
            return join_address(host, port - VIP_PORT_DISTANCE)
        return address

    def _address(self, broker_name: str, broker_id: int) -> str | None:
        addresses = self.routes.addresses_of(broker_name)
        found = addresses.get(broker_id)
        if found is None and broker_id != MASTER_ID:
            # A slave that left: the next one, then anybody.
            found = addresses.get(broker_id + 1) or next(iter(addresses.values()), None)
        return found

    async def call_broker(
        self,
        broker_name: str,
        header: Header,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        accepts: Sequence[int] = (ResponseCode.SUCCESS,),
        is_vip: bool = False,
    ) -> Command:
        """Ask a broker's master.

        Raises:
            BrokerNotFound, BrokerError, RemotingError
        """
        address = await self.broker_address(broker_name, is_vip=is_vip)
        return await self.call(
            address, self.request(header, body), timeout_s=timeout_s, accepts=accepts
        )

    async def call(
        self,
        address: str,
        request: Command,
        *,
        timeout_s: float | None = None,
        accepts: Sequence[int] = (ResponseCode.SUCCESS,),
    ) -> Command:
        """Raises BrokerError for other codes than the accepted ones, RemotingError."""
        self.check_running()
        limit_s = self.settings.api_timeout if timeout_s is None else timeout_s
        answer = await self.connections.call(address, request, limit_s)
        if answer.code not in accepts:
            raise broker_failure(answer, address)
        return answer

    def request(self, header: Header, body: bytes = b"") -> Command:
        return new_request(header.code, to_fields(header), body)

    @property
    def is_hooked(self) -> bool:
        """Whether requests are looked at, or signed, field by field before they leave."""
        return bool(self._endpoint.hooks)

    # What runs beside

    async def _repeat(self, interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
        """Whatever happens once, the next time comes: a client must never stop silently."""
        while True:
            await asyncio.sleep(interval_s)
            try:
                await work()
            except Exception:
                log.exception("chore_failed")

    async def _refresh_routes(self) -> None:
        if self._topics:
            await self.routes.refresh_all(list(self._topics))
            return
        try:  # nothing to do yet, but whether name servers answer is worth knowing
            await self.name_servers.route(DEFAULT_TOPIC, self.settings.api_timeout)
        except TopicNotFound:
            pass
        except NoNameServer as error:
            log.warning("name_servers_silent reason=%s", error)

    def _connected(self, address: str, is_again: bool) -> None:
        """A broker that was away may have forgotten us, and should not wait for the next beat."""
        if is_again and self.measures is not None:
            self.measures.reconnected(address)
        brokers = {known for *_, known in self.routes.all_addresses(only_masters=False)}
        if is_again and address in brokers and self._state is ClientState.RUNNING:
            self.heartbeats.forget(address)
            self.spawn(self._greet_again(address), "greeting")

    async def _greet_again(self, address: str) -> None:
        if await self.heartbeats.beat_to(address):
            for consumer in self.consumers.values():
                consumer.met_again()

    async def _discover(self) -> None:
        from emberq.remoting.address_lookup import (  # noqa: PLC0415 - few clients look up
            look_up,
            lookup_url,
        )

        domain = os.environ.get("ROCKETMQ_NAMESRV_DOMAIN", "jmenv.tbsite.net")
        subgroup = os.environ.get("ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP", "nsaddr")
        url = lookup_url(domain, subgroup, self._unit_name or "")
        try:
            found = await asyncio.to_thread(look_up, url)
        except RemotingError as error:
            if not self.name_servers.addresses:
                raise NoNameServer(
                    f"no name server is configured, and none can be looked up: {error}",
                    hint="Give name_server='host:9876' or set NAMESRV_ADDR",
                ) from None
            log.warning("discovery_failed reason=%s", error)
            return
        if found:
            self.name_servers.replace(found)

    def _add(self, table: dict[str, Any], group: str, part: object, kind: str) -> None:
        self.check_running()
        if group in table:
            raise ClientError(
                f"this client has a {kind} of group {group} already",
                hint="Use another group, or a client of its own",
            )
        table[group] = part

    def _task_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task_failed name=%s", task.get_name(), exc_info=error)


def _request_hooks(
    namespace_v2: str | None, credentials: Credentials | None
) -> tuple[CallHook, ...]:
    """What is added to every request; signatures come last, for they are of all the rest."""
    hooks: list[CallHook] = []
    if namespace_v2:
        hooks.append(InNamespace(namespace_v2))
    if credentials is not None:
        hooks.append(Signing(credentials))
    return tuple(hooks)


def _tls_context(tls: bool | ssl.SSLContext) -> ssl.SSLContext | None:
    if isinstance(tls, ssl.SSLContext):
        return tls
    if not tls:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The official default: encryption without proof of who the server is.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
