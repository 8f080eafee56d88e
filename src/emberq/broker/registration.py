"""Keeps every name server informed of this broker: its address and its topics (103, 104, 322)."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from ssl import SSLContext

from msgspec.structs import replace

from emberq.broker.addresses import BrokerAddresses
from emberq.broker.config import BrokerConfig
from emberq.broker.topics import Topics
from emberq.errors import ProtocolError, RemotingError
from emberq.model.data_version import DataVersion
from emberq.model.route import TopicRoute
from emberq.model.topic import READ_WRITE, TopicConfig
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.registration import (
    RegisterBrokerBody,
    encode_registration,
    registration_checksum,
)
from emberq.protocol.bodies.routes import KeyValueTable
from emberq.protocol.bodies.topics import TopicTable
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command, new_request
from emberq.protocol.header_fields import Header, from_fields, to_fields
from emberq.protocol.headers.nameserver import (
    GetRouteInfoByTopic,
    QueryDataVersion,
    QueryDataVersionResponse,
    RegisterBroker,
    UnregisterBroker,
)
from emberq.remoting.addresses import split_address
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint

log = logging.getLogger(__name__)

# Start-up waits for the first answers this long, and for the rest hardly: who does not answer
# now will be asked again.
FIRST_ROUND_MAX_S = 3.0
FIRST_ROUND_REST_MAX_S = 0.3
# The first repetition comes early: a name server may have started together with us.
FIRST_PERIOD_S = 10.0
# After a failure: soon, then at the usual pace.
RETRY_FIRST_S = 1.0
RETRY_DOUBLINGS_MAX = 10
UNREGISTER_MAX_S = 3.0
QUESTION_MAX_S = 3.0
# One line per name server and this long, however often it fails.
FAILURE_LOG_INTERVAL_S = 60.0
# An order of a tool is answered when name servers know of it, or after this.
SETTLE_MAX_S = 3.0


class Registration:
    """This broker's standing with all name servers; each has a link of its own."""

    def __init__(
        self,
        topics: Topics,
        config: Callable[[], BrokerConfig],
        addresses: BrokerAddresses,
        tls: SSLContext | None = None,
    ) -> None:
        self._topics = topics
        self._config = config
        self._addresses = addresses
        self._tls = tls
        self._endpoint = Endpoint()
        self._full: tuple[tuple[DataVersion, int, bool], bytes] | None = None
        self._links = {address: _Link(address, self) for address in config().name_servers}
        self._is_started = False
        self._leaving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Register everywhere at once; returns when that was tried, and goes on trying."""
        self._is_started = True
        if not self._links:
            log.warning("no_name_server reason=namesrvAddr is not set; clients will not find us")
            return
        for link in self._links.values():
            link.start()
        tries = [asyncio.ensure_future(link.was_tried.wait()) for link in self._links.values()]
        _, missing = await asyncio.wait(
            tries, timeout=FIRST_ROUND_MAX_S, return_when=asyncio.FIRST_COMPLETED
        )
        if missing and len(missing) < len(tries):
            _, missing = await asyncio.wait(missing, timeout=FIRST_ROUND_REST_MAX_S)
        for attempt in missing:
            attempt.cancel()

    def topics_changed(self, name: str | None) -> None:
        """Tell every name server soon: changes of one turn of the loop go together."""
        for link in self._links.values():
            link.want(name)

    def config_changed(self, config: BrokerConfig) -> None:
        """Register with name servers that are new in the configuration, leave those that are not
        in it any more."""
        wanted = config.name_servers
        for address in [known for known in self._links if known not in wanted]:
            task = asyncio.get_running_loop().create_task(self._links.pop(address).close())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        for address in wanted:
            if address not in self._links:
                self._links[address] = _Link(address, self)
                if self._is_started:
                    self._links[address].start()

    async def settle(self) -> None:
        """Return when every name server that can be reached knows all changes so far."""
        waiting = [
            asyncio.ensure_future(link.is_settled.wait())
            for link in self._links.values()
            if link.is_reachable
        ]
        if waiting:
            _, unfinished = await asyncio.wait(waiting, timeout=SETTLE_MAX_S)
            for wait in unfinished:
                wait.cancel()

    async def route_of(self, topic: str) -> TopicRoute | None:
        """Where a topic is, as the first name server says that answers; None: nobody knows."""
        request = GetRouteInfoByTopic(topic=topic)
        for link in list(self._links.values()):
            response = await link.ask(_request(request))
            if response is not None and response.code == ResponseCode.SUCCESS:
                return decode_body(TopicRoute, response.body)
        return None

    async def close(self) -> None:
        """Leave all name servers, as far as they can be reached."""
        await asyncio.gather(*(link.close() for link in self._links.values()), *self._leaving)

    # What the links send

    def registration_of(self, names: Iterable[str] | None) -> Command:
        """A request with these topics, None for all."""
        config = self._config()
        body = self._full_body(config) if names is None else self._body(config, names)
        header = RegisterBroker(
            broker_name=config.broker_name,
            broker_address=self._addresses.main,
            cluster_name=config.broker_cluster_name,
            ha_server_address=self._addresses.ha,
            broker_id=config.broker_id,
            is_compressed=config.compressed_register,
            body_crc32=registration_checksum(body),
            is_acting_master_enabled=False,
        )
        return _request(header, body)

    def _full_body(self, config: BrokerConfig) -> bytes:
        """All topics; ten thousand are 1.6 MB and 15 ms, and mostly the same as last time."""
        key = (self._topics.version, config.broker_permission, config.compressed_register)
        if self._full is None or self._full[0] != key:
            self._full = (key, self._body(config, self._topics.names()))
        return self._full[1]

    def _body(self, config: BrokerConfig, names: Iterable[str]) -> bytes:
        chosen = filter(None, map(self._topics.get, names))
        table = TopicTable(
            data_version=self._topics.version,
            mapping_data_version=DataVersion(),
            topics={topic.name: _masked(topic, config.broker_permission) for topic in chosen},
            mapping_details={},
            mappings={},
        )
        return encode_registration(
            RegisterBrokerBody(filter_servers=[], topic_table=table),
            is_compressed=config.compressed_register,
        )

    def version_question(self) -> Command:
        return _request(self._identity(QueryDataVersion), encode_body(self._topics.version))

    def farewell(self) -> Command:
        return _request(self._identity(UnregisterBroker))

    def take_answer(self, response: Command) -> None:
        """A name server's answer to a registration says which topics are ordered."""
        if response.body:
            self._topics.mark_ordered(decode_body(KeyValueTable, response.body).table)

    async def connect(self, address: str) -> Connection:
        return await connect(*split_address(address), self._endpoint, tls=self._tls)

    @property
    def timeout_s(self) -> float:
        return self._config().register_broker_timeout_mills / 1000

    @property
    def period_s(self) -> float:
        return self._config().register_period_s

    @property
    def is_forced(self) -> bool:
        return self._config().force_register

    @property
    def version(self) -> DataVersion:
        return self._topics.version

    def _identity(
        self, kind: type[QueryDataVersion] | type[UnregisterBroker]
    ) -> QueryDataVersion | UnregisterBroker:
        config = self._config()
        return kind(
            broker_name=config.broker_name,
            broker_address=self._addresses.main,
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
        )


class _Link:
    """One name server: a connection while there is one, and what it does not know yet."""

    def __init__(self, address: str, registration: Registration) -> None:
        self._address = address
        self._registration = registration
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._changed: set[str] = set()
        self._is_all_wanted = True
        self._failures = 0
        self._logged_at = float("-inf")
        self.was_tried = asyncio.Event()
        self.is_settled = asyncio.Event()

    @property
    def is_reachable(self) -> bool:
        return self._failures == 0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def want(self, name: str | None) -> None:
        """A topic changed, or None: all of them."""
        self.is_settled.clear()
        if name is None:
            self._is_all_wanted = True
        else:
            self._changed.add(name)
        self._wake.set()

    async def ask(self, request: Command) -> Command | None:
        """An answer to something else than our registration; None: there is none to be had."""
        if self._connection is None or self._connection.is_closed:
            return None
        try:
            return await self._connection.call(request, QUESTION_MAX_S)
        except RemotingError as error:
            log.warning("question_failed name_server=%s reason=%s", self._address, error)
            return None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is None or self._connection.is_closed:
            return
        try:
            await self._connection.call(self._registration.farewell(), UNREGISTER_MAX_S)
            log.info("unregistered name_server=%s", self._address)
        except RemotingError as error:
            log.warning("unregister_failed name_server=%s reason=%s", self._address, error)
        self._connection.close()

    async def _run(self) -> None:
        period_s = FIRST_PERIOD_S
        while True:
            try:
                await self._register()
            except (RemotingError, ProtocolError) as error:
                self._note_failure(error)
            except Exception as error:  # a broker that stops registering is lost to its clients
                log.exception("registration_broken name_server=%s", self._address)
                self._note_failure(error)
            else:
                if self._failures:
                    log.info("name_server_back name_server=%s", self._address)
                self._failures = 0
            self.was_tried.set()
            pause_s = period_s if self.is_reachable else self._retry_s()
            is_woken = await self._pause(pause_s)
            if not is_woken:
                self._is_all_wanted = True
                if self.is_reachable:
                    period_s = self._registration.period_s

    async def _register(self) -> None:
        """Tell what is not known there; what changes meanwhile waits for the next round."""
        if self._connection is None or self._connection.is_closed:
            self._is_all_wanted = True
            self._connection = await self._registration.connect(self._address)
            # A name server that went away may have forgotten us when it is back.
            self._connection.closed.add_done_callback(lambda _: self.want(None))
            is_new = True
        else:
            is_new = False
        changed, self._changed = self._changed, set()
        is_all, self._is_all_wanted = self._is_all_wanted or is_new, False
        self._wake.clear()
        try:
            if is_all:
                await self._tell_all(is_forced=is_new or bool(changed))
            else:
                await self._tell_some(changed)
        except BaseException:
            self._changed |= changed
            raise
        if not self._wake.is_set():
            self.is_settled.set()

    async def _tell_all(self, *, is_forced: bool) -> None:
        if not (is_forced or self._registration.is_forced) and not await self._is_outdated():
            return
        await self._tell(self._registration.registration_of(None))

    async def _tell_some(self, names: set[str]) -> None:
        try:
            await self._tell(self._registration.registration_of(names))
        except _Refused:  # a name server that forgot us takes no single topic
            await self._tell(self._registration.registration_of(None))

    async def _is_outdated(self) -> bool:
        response = await self._call(self._registration.version_question())
        return from_fields(QueryDataVersionResponse, response.fields or {}).is_changed

    async def _tell(self, request: Command) -> None:
        self._registration.take_answer(await self._call(request))

    async def _call(self, request: Command) -> Command:
        assert self._connection is not None
        response = await self._connection.call(request, self._registration.timeout_s)
        if response.code != ResponseCode.SUCCESS:
            raise _Refused(f"code {response.code}: {response.remark}")
        return response

    async def _pause(self, pause_s: float) -> bool:
        """Whether it was cut short by a change."""
        # A name server that fails is not asked more often because topics change.
        event = self._wake if self.is_reachable else asyncio.Event()
        try:
            async with asyncio.timeout(pause_s):
                await event.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(0)  # whatever else changes in this turn goes along
        return True

    def _retry_s(self) -> float:
        doublings = min(self._failures - 1, RETRY_DOUBLINGS_MAX)
        return min(RETRY_FIRST_S * (1 << doublings), self._registration.period_s)

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        self._is_all_wanted = True
        if self._connection is not None:
            self._connection.abort()
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= FAILURE_LOG_INTERVAL_S:
            self._logged_at = now
            log.warning(
                "registration_failed name_server=%s failures=%d reason=%s",
                self._address,
                self._failures,
                error,
            )


class _Refused(RemotingError):
    """The name server answered with a failure code."""


def _request(header: Header, body: bytes = b"") -> Command:
    return new_request(header.code, to_fields(header), body)


def _masked(topic: TopicConfig, broker_permission: int) -> TopicConfig:
    """What others may do here: a broker that is not open for both closes its topics too."""
    if broker_permission & READ_WRITE == READ_WRITE:
        return topic
    return replace(topic, permission=topic.permission & broker_permission)
