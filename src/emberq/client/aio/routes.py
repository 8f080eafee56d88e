"""Routes that the client knows, and brokers' addresses out of them."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from emberq.client.aio.name_servers import NameServers
from emberq.client.core.topic_queues import PublishQueues, is_same_route, publish_queues
from emberq.errors import ClientClosed, ClientError, NoNameServer, TopicNotFound
from emberq.model.route import MASTER_ID, TopicRoute
from emberq.model.system_topics import RETRY_PREFIX

log = logging.getLogger(__name__)

RouteListener = Callable[[str], None]


class Routes:
    """A cache that is refreshed in time and on failure. Questions for one topic go together."""

    def __init__(self, name_servers: NameServers, timeout_s: float) -> None:
        self._name_servers = name_servers
        self._timeout_s = timeout_s
        self._routes: dict[str, TopicRoute] = {}
        # What producers ask for with every message, worked out once per route.
        self._publish_queues: dict[str, PublishQueues] = {}
        # Topics that no broker has yet: these routes are those of their templates.
        self._of_templates: set[str] = set()
        self._asking: dict[str, asyncio.Task[TopicRoute]] = {}
        self._listeners: list[RouteListener] = []
        # Addresses of all brokers of all routes, by name and id.
        self._addresses: dict[str, dict[int, str]] = {}

    def known(self, topic: str) -> TopicRoute | None:
        return self._routes.get(topic)

    def known_publish_queues(self, topic: str) -> PublishQueues | None:
        """Where a topic can be written, as far as its route is known."""
        found = self._publish_queues.get(topic)
        if found is None and topic in self._routes:
            found = self._publish_queues[topic] = publish_queues(topic, self._routes[topic])
        return found

    def topics(self) -> list[str]:
        return list(self._routes)

    async def get(self, topic: str) -> TopicRoute:
        """Raises NoNameServer, TopicNotFound."""
        return self._routes.get(topic) or await self.refresh(topic)

    async def refresh(self, topic: str) -> TopicRoute:
        """Ask now. Raises NoNameServer, TopicNotFound."""
        task = self._asking.get(topic)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(topic))
            self._asking[topic] = task
            task.add_done_callback(lambda done: self._asked(topic, done))
        await asyncio.wait([task])
        if task.cancelled():
            raise ClientClosed("the client was closed while it asked for a route")
        return task.result()

    def is_asking(self, topic: str) -> bool:
        return topic in self._asking

    async def refresh_all(self, topics: Iterable[str]) -> None:
        """Ask for each; what fails keeps its old route and is logged."""
        for topic in dict.fromkeys(topics):
            try:
                await self.refresh(topic)
            except NoNameServer as error:
                log.warning("routes_not_refreshed reason=%s", error)
                return
            except ClientError as error:
                level = logging.DEBUG if topic.startswith(RETRY_PREFIX) else logging.WARNING
                log.log(level, "route_not_refreshed topic=%s reason=%s", topic, error)

    def put_template(self, topic: str, route: TopicRoute) -> None:
        """Take a template's route for a topic that no broker has yet."""
        self._of_templates.add(topic)
        self._put(topic, route)

    def is_of_template(self, topic: str) -> bool:
        """Whether the route that is known says where the topic would be made."""
        return topic in self._of_templates

    def _put(self, topic: str, route: TopicRoute) -> None:
        if is_same_route(self._routes.get(topic), route):
            return
        self._routes.pop(topic, None)
        self._routes[topic] = route  # behind all others: what is newest counts
        self._publish_queues.pop(topic, None)
        self._collect_addresses()
        for listener in self._listeners:
            listener(topic)

    def forget(self, topic: str) -> None:
        """A topic that is gone: its route may name a broker where that is not any more."""
        self._of_templates.discard(topic)
        if self._routes.pop(topic, None) is not None:
            self._publish_queues.pop(topic, None)
            self._collect_addresses()

    def on_change(self, listener: RouteListener) -> None:
        """Call `listener(topic)` when a route is new or another one."""
        self._listeners.append(listener)

    def off_change(self, listener: RouteListener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def close(self) -> None:
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    # Brokers

    def broker_names(self) -> list[str]:
        return list(self._addresses)

    def master_of(self, broker_name: str) -> str | None:
        addresses = self._addresses.get(broker_name)
        return None if addresses is None else addresses.get(MASTER_ID)

    def addresses_of(self, broker_name: str) -> dict[int, str]:
        return self._addresses.get(broker_name, {})

    def all_addresses(self, *, only_masters: bool) -> list[tuple[str, int, str]]:
        """Broker name, id and address of each."""
        return [
            (name, broker_id, address)
            for name, addresses in self._addresses.items()
            for broker_id, address in addresses.items()
            if not only_masters or broker_id == MASTER_ID
        ]

    async def _ask(self, topic: str) -> TopicRoute:
        route = await self._name_servers.route(topic, self._timeout_s)
        self._of_templates.discard(topic)
        self._put(topic, route)
        return route

    def _asked(self, topic: str, done: "asyncio.Task[TopicRoute]") -> None:
        self._asking.pop(topic, None)
        if not done.cancelled() and isinstance(done.exception(), TopicNotFound):
            log.debug("route_not_found topic=%s", topic)

    def _collect_addresses(self) -> None:
        addresses: dict[str, dict[int, str]] = {}
        for route in self._routes.values():
            for broker in route.brokers:
                addresses[broker.broker_name] = broker.addresses
        self._addresses = addresses
