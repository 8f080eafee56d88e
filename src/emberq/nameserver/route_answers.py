"""Encoded route answers, kept until the route changes: a look-up costs the same for any table."""

from collections.abc import Callable

from msgspec.structs import replace

from emberq.model.route import MASTER_ID, TopicRoute
from emberq.nameserver.route_table import RouteTable
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.fastjson import Dialect

OrderConfigOf = Callable[[str], str | None]

_STRICT = Dialect.STRICT  # a member of an enum costs ten times a name of the module

# A route does not name its topic: topics with the same queues on the same brokers share a body.
SHARED_BODIES_MAX = 4_096


class RouteAnswers:
    """Answers by topic and JSON dialect."""

    def __init__(
        self,
        table: RouteTable,
        order_config_of: OrderConfigOf,
        uses_acting_masters: Callable[[], bool],
    ) -> None:
        self._table = table
        self._order_config_of = order_config_of
        self._uses_acting_masters = uses_acting_masters
        self._strict: dict[str, bytes] = {}
        self._dialect: dict[str, bytes] = {}
        self._shared: dict[bytes, bytes] = {}
        self._generation = table.generation

    def get(self, topic: str, dialect: Dialect) -> bytes | None:
        """The body of a route answer; None if there is no route."""
        table = self._table
        if table.changed_topics or table.generation != self._generation:
            self._drop_changed()
        kept = self._strict if dialect is _STRICT else self._dialect
        body = kept.get(topic)
        if body is None:
            route = self.route(topic)
            if route is None:
                return None
            body = kept[topic] = self._share(encode_body(route, dialect))
        return body

    def route(self, topic: str) -> TopicRoute | None:
        route = self._table.route(topic, uses_acting_masters=self._uses_acting_masters())
        order_config = None if route is None else self._order_config_of(topic)
        if route is None or order_config is None:
            return route
        return replace(route, order_config=order_config)

    def clear(self) -> None:
        """Forget all answers: something other than the table changed that they depend on."""
        self._strict.clear()
        self._dialect.clear()
        self._shared.clear()

    def _share(self, body: bytes) -> bytes:
        if len(self._shared) >= SHARED_BODIES_MAX:
            self._shared.clear()  # topics keep what they have; only the next ones share anew
        return self._shared.setdefault(body, body)

    def _drop_changed(self) -> None:
        table = self._table
        if table.generation != self._generation:
            self._generation = table.generation
            self.clear()
        else:
            for topic in table.changed_topics:
                self._strict.pop(topic, None)
                self._dialect.pop(topic, None)
        table.changed_topics.clear()


def within_zone(route: TopicRoute, zone_name: str) -> TopicRoute:
    """Only the brokers of a zone, and groups without a master, which serve all zones."""
    kept = [
        broker
        for broker in route.brokers
        if MASTER_ID not in broker.addresses
        or (broker.zone_name or "").lower() == zone_name.lower()
    ]
    names = {broker.broker_name for broker in kept}
    addresses = {address for broker in kept for address in broker.addresses.values()}
    return replace(
        route,
        brokers=kept,
        queues=[queue for queue in route.queues if queue.broker_name in names],
        filter_servers={a: s for a, s in route.filter_servers.items() if a in addresses},
    )
