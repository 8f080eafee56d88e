"""Questions to name servers: one that answers is kept, all are tried before giving up."""

import asyncio
import logging
import os
import random
from collections.abc import Sequence

from emberq.client.aio.connections import Connections
from emberq.errors import NoNameServer, ProtocolError, RemotingError, TopicNotFound
from emberq.model.route import TopicRoute
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, new_request
from emberq.remoting.addresses import split_address, split_list

log = logging.getLogger(__name__)

ENVIRONMENT_KEY = "NAMESRV_ADDR"
BROKER_PORTS = ("10911", "10909")


def configured_servers(given: str | Sequence[str] | None) -> list[str]:
    """Addresses by setting, else by environment; empty: they must be looked up.

    A cloud's endpoint may come as a URL, of which only the last part is the address.

    Raises:
        ConfigError: what is no address.
    """
    if given is None:
        given = os.environ.get(ENVIRONMENT_KEY, "")
    texts = split_list(given) if isinstance(given, str) else list(given)
    addresses = [text.rpartition("/")[2] if "://" in text else text for text in texts]
    for address in addresses:
        split_address(address)
    return addresses


class NameServers:
    """The list, and the one that is used until it fails."""

    def __init__(self, connections: Connections, addresses: Sequence[str]) -> None:
        self._connections = connections
        self._addresses: list[str] = []
        self._chosen = 0
        self._failed: set[str] = set()  # those that did not answer when they were last asked
        # Whether the last question was answered; None: none was asked yet.
        self.is_answering: bool | None = None
        self.replace(addresses)

    @property
    def addresses(self) -> list[str]:
        return list(self._addresses)

    def replace(self, addresses: Sequence[str]) -> None:
        """Take a new list; clients that start together must not all ask the same server."""
        if set(addresses) == set(self._addresses):
            return
        gone = set(self._addresses) - set(addresses)
        self._addresses = random.sample(list(addresses), len(addresses))
        self._chosen = 0
        self._failed -= gone
        for address in gone:
            self._connections.drop(address)

    async def call(self, command: Command, timeout_s: float) -> Command:
        """Ask the chosen server, then the others, until one answers or the time is over.

        Raises:
            NoNameServer
        """
        if not self._addresses:
            raise NoNameServer(
                "no name server is configured",
                hint=f"Give name_server='host:9876' or set {ENVIRONMENT_KEY}",
            )
        failures: list[str] = []
        addresses = self._addresses
        try:
            async with asyncio.timeout(timeout_s):
                for number in range(len(addresses)):
                    at = (self._chosen + number) % len(addresses)
                    address = addresses[at]
                    # One that does not answer must leave time for the others.
                    share_s = timeout_s / min(len(addresses), 3)
                    try:
                        answer = await self._connections.call(address, command, share_s)
                    except RemotingError as error:
                        failures.append(str(error))
                        # Once, until it answers: others ask again and again.
                        level = logging.DEBUG if address in self._failed else logging.WARNING
                        log.log(level, "name_server_failed address=%s reason=%s", address, error)
                        self._failed.add(address)
                        continue
                    self._failed.discard(address)
                    if addresses is self._addresses:
                        self._chosen = at
                    self.is_answering = True
                    return answer
        except TimeoutError:
            failures.append(f"no answer within {timeout_s:g} s")
        self.is_answering = False
        raise NoNameServer(
            f"no name server can be reached: {'; '.join(failures)}", hint=_hint(addresses)
        )

    async def route(self, topic: str, timeout_s: float) -> TopicRoute:
        """Where a topic is.

        Raises:
            NoNameServer, TopicNotFound
        """
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        request = new_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        answer = await self.call(request, timeout_s)
        if answer.code == ResponseCode.SUCCESS:
            try:
                return decode_body(TopicRoute, answer.body)
            except ProtocolError as error:
                raise TopicNotFound(f"the route of {topic} cannot be read: {error}") from None
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise TopicNotFound(
                f"no name server knows the topic {topic}",
                hint="Create it, or check that brokers register with this name server",
            )
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self.is_answering = False
            raise NoNameServer(
                f"{self._addresses[self._chosen]} answers, but not as a name server",
                hint="It is probably a broker; name servers usually listen on port 9876",
            )
        raise TopicNotFound(
            f"the route of {topic} was refused: {answer.code} {answer.remark or ''}".rstrip(),
            hint=_hint(self._addresses),
        )


def _hint(addresses: Sequence[str]) -> str:
    """The usual mistake is a broker's address where a name server's belongs."""
    wrong = [address for address in addresses if address.rpartition(":")[2] in BROKER_PORTS]
    if wrong:
        return f"{wrong[0]} looks like a broker; name servers usually listen on port 9876"
    return "Check the address, and that a name server runs there, usually on port 9876"
