"""Tells brokers who we are: at start, in time, and when something has changed (34, 35)."""

import asyncio
import logging
from collections.abc import Mapping

from emberq.client.aio.connections import Connections
from emberq.client.aio.parts import ConsumerPart, ProducerPart
from emberq.client.aio.routes import Routes
from emberq.client.core.heartbeat_forms import HeartbeatForms
from emberq.errors import ClientClosed, RemotingError
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.heartbeat import Heartbeat, ProducerPresence
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import new_request
from emberq.protocol.header_fields import to_fields
from emberq.protocol.headers.groups import UnregisterClient

log = logging.getLogger(__name__)

# Official clients have it in every heartbeat; brokers send retries of consumers to it.
INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"


class Heartbeats:
    """Beats for all groups of one client."""

    def __init__(
        self,
        client_id: str,
        connections: Connections,
        routes: Routes,
        producers: Mapping[str, ProducerPart],
        consumers: Mapping[str, ConsumerPart],
        timeout_s: float,
        *,
        is_v2: bool = False,
    ) -> None:
        self._client_id = client_id
        self._connections = connections
        self._routes = routes
        self._producers = producers
        self._consumers = consumers
        self._timeout_s = timeout_s
        self._forms = HeartbeatForms() if is_v2 else None
        self._beating: asyncio.Task[None] | None = None
        self._is_wanted_again = False
        # What each broker says it is, by address; SQL filters need to know.
        self.versions: dict[str, int] = {}

    async def beat(self, *, is_whole: bool = False) -> None:
        """To every broker that should know us. Who comes while one is under way gets the next.

        `is_whole`: brokers must hear all of it again, for instance that a subscription is newer.
        """
        if is_whole:
            self.forget()
        if self._beating is not None and not self._beating.done():
            self._is_wanted_again = True
        else:
            self._beating = asyncio.get_running_loop().create_task(self._beat_until_settled())
        beating = self._beating
        await asyncio.wait([beating])
        if not beating.cancelled():
            beating.result()

    async def beat_to(self, address: str) -> bool:
        """To one broker; False: it did not take it."""
        beat = self._heartbeat()
        if self._forms is not None:
            beat = self._forms.form_for(address, beat)
        request = new_request(RequestCode.HEART_BEAT, {}, encode_body(beat))
        try:
            answer = await self._connections.call(address, request, self._timeout_s)
        except (RemotingError, ClientClosed) as error:
            log.warning("heartbeat_failed broker=%s reason=%s", address, error)
            return False
        if answer.code != ResponseCode.SUCCESS:
            log.warning(
                "heartbeat_refused broker=%s code=%d reason=%s",
                address,
                answer.code,
                answer.remark,
            )
            return False
        self.versions[address] = answer.version
        if self._forms is not None:
            self._forms.answered(address, beat, answer.fields or {})
        return True

    def forget(self, address: str | None = None) -> None:
        """A broker, or all of them, may not know what they were told before."""
        if self._forms is not None:
            self._forms.forget(address)

    async def close(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    async def leave(
        self, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        """Tell every broker that a group of this client is gone."""
        self.forget()
        header = UnregisterClient(
            client_id=self._client_id,
            producer_group=producer_group,
            consumer_group=consumer_group,
        )
        addresses = [address for *_, address in self._routes.all_addresses(only_masters=False)]
        # Who is not connected does not know us either.
        known = set(self._connections.addresses()).intersection(addresses)
        await asyncio.gather(*(self._leave(address, header) for address in known))

    async def _beat_until_settled(self) -> None:
        while True:
            self._is_wanted_again = False
            targets = self._routes.all_addresses(only_masters=not self._consumers)
            addresses = dict.fromkeys(address for *_, address in targets)
            await asyncio.gather(*(self.beat_to(address) for address in addresses))
            if not self._is_wanted_again:
                return

    def _heartbeat(self) -> Heartbeat:
        groups = [INNER_PRODUCER_GROUP, *self._producers]
        return Heartbeat(
            client_id=self._client_id,
            producers=[ProducerPresence(group=group) for group in groups],
            consumers=[part.presence() for part in self._consumers.values()],
        )

    async def _leave(self, address: str, header: UnregisterClient) -> None:
        request = new_request(RequestCode.UNREGISTER_CLIENT, to_fields(header))
        try:
            await self._connections.call(address, request, self._timeout_s)
        except (RemotingError, ClientClosed) as error:
            log.debug("unregistration_failed broker=%s reason=%s", address, error)
