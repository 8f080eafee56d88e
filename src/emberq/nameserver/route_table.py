"""Who serves what: the name server's five tables as one state machine.

Topic → queues by broker, broker name → addresses, cluster → broker names, broker address →
liveness, broker address → filter servers; static topics add their queue mappings. Facts go in
(registrations, times, closed connections), answers come out; there is no clock and no socket.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from emberq.model.data_version import DataVersion
from emberq.model.route import MASTER_ID, BrokerData, QueueData, TopicRoute
from emberq.model.static_topic import StaticTopicMapping
from emberq.model.topic import READ_WRITE, Permission, TopicConfig

BROKER_TIMEOUT_DEFAULT_MS = 120_000
# Brokers tell each other apart on these topics; an acting master must not hide there.
MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


class BrokerKey(Struct, frozen=True):
    """A broker process: the cluster it named and the address it serves."""

    cluster: str
    address: str


class Registration(Struct, frozen=True, kw_only=True):
    """What a broker says about itself."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str = ""
    timeout_ms: int | None = None
    # None: the broker knows nothing of acting masters; the value matters only to one that does.
    is_acting_master_enabled: bool | None = None
    zone_name: str | None = None
    version: DataVersion = DataVersion()
    topics: Mapping[str, TopicConfig] = {}
    queue_mappings: Mapping[str, StaticTopicMapping] = {}
    filter_servers: list[str] | None = None
    # Equal for equal bodies; None keeps the next one from being taken for a repetition.
    fingerprint: bytes | None = None
    # Says what the last one said: its topics, mappings and filter servers are left out here.
    is_repetition: bool = False

    @property
    def key(self) -> BrokerKey:
        return BrokerKey(self.cluster, self.address)


class Unregistration(Struct, frozen=True, kw_only=True):
    cluster: str
    broker_name: str
    broker_id: int
    address: str

    @property
    def key(self) -> BrokerKey:
        return BrokerKey(self.cluster, self.address)


class Registered(Struct, frozen=True, kw_only=True):
    """The outcome for the broker: its master's addresses, if it is a slave that has one."""

    master_address: str | None = None
    ha_address: str | None = None
    is_first: bool = False


class RegistrationRefused(Exception):
    """One topic from a broker that never sent its whole table would hide the others."""


class MinBrokerIdChange(Struct, frozen=True, kw_only=True):
    """The smallest id of a broker group is another one now; `member_addresses` should know."""

    broker_name: str
    min_id: int
    min_address: str
    offline_address: str | None
    ha_address: str | None
    member_addresses: tuple[str, ...]


class LiveBroker(Struct, kw_only=True):
    broker_name: str
    broker_id: int
    seen_at_ms: int
    timeout_ms: int
    version: DataVersion
    connection: Hashable
    ha_address: str
    fingerprint: bytes | None = None  # of a registration whose topics are all in the table …
    removal_count: int = 0  # … unless the table has removed something since


class _Group(Struct, kw_only=True):
    """All broker processes of one name."""

    cluster: str
    broker_name: str
    addresses: dict[int, str]
    is_acting_master_enabled: bool = False
    zone_name: str | None = None

    def to_data(self) -> BrokerData:
        return BrokerData(
            cluster=self.cluster,
            broker_name=self.broker_name,
            addresses=dict(sorted(self.addresses.items())),
            is_acting_master_enabled=self.is_acting_master_enabled,
            zone_name=self.zone_name,
        )


def _ignore_change(_: MinBrokerIdChange) -> None:
    return None


class RouteTable:
    """The registry of one name server.

    `generation` grows with every change that can alter the route of topics other than those
    named in `changed_topics`; both together let a caller keep encoded answers.
    """

    def __init__(
        self, on_min_id_change: Callable[[MinBrokerIdChange], None] = _ignore_change
    ) -> None:
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._mappings: dict[str, dict[str, StaticTopicMapping]] = {}
        self._groups: dict[str, _Group] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[BrokerKey, LiveBroker] = {}
        self._filter_servers: dict[BrokerKey, list[str]] = {}
        self._on_min_id_change = on_min_id_change
        self._removal_count = 0
        self.generation = 0
        self.changed_topics: set[str] = set()

    # Brokers come

    def register(
        self,
        registration: Registration,
        connection: Hashable,
        now_ms: int,
        *,
        deletes_absent_topics: bool = False,
    ) -> Registered:
        """Take a registration in, complete or of single topics.

        Raises:
            RegistrationRefused: a single topic of a broker that was not registered before.
        """
        known = self._groups.get(registration.broker_name)
        is_new_id = known is None or registration.broker_id not in known.addresses
        if is_new_id and len(registration.topics) == 1:
            raise RegistrationRefused
        group = self._join_group(registration)
        min_id_before = min(group.addresses, default=0)
        self._forget_other_ids_of(group, registration)
        if self._is_outranked(group, registration):
            live = self._live.get(registration.key)
            if live is not None:
                self.unregister([_leave(registration.key, live)])
            return Registered()
        if group.addresses.get(registration.broker_id) != registration.address:
            group.addresses[registration.broker_id] = registration.address
            self.generation += 1
        is_settled = registration.is_repetition
        if not is_settled and self._speaks_for_group(group, registration):
            self._take_topics(group, registration, is_new_id, deletes_absent_topics)
            # A mapping is taken only with its topic, which may come later from another broker.
            is_settled = not registration.queue_mappings
        self._live[registration.key] = LiveBroker(
            broker_name=registration.broker_name,
            broker_id=registration.broker_id,
            seen_at_ms=now_ms,
            timeout_ms=registration.timeout_ms or BROKER_TIMEOUT_DEFAULT_MS,
            version=registration.version,
            connection=connection,
            ha_address=registration.ha_address,
            fingerprint=registration.fingerprint if is_settled else None,
            removal_count=self._removal_count,
        )
        self._take_filter_servers(registration)
        if registration.broker_id < min_id_before:
            self._announce_min_id(group, None, registration.ha_address)
        return self._master_for(group, registration, is_new_id)

    def repeated_version(
        self, key: BrokerKey, broker_name: str, broker_id: int, fingerprint: bytes
    ) -> DataVersion | None:
        """The broker's data version, if a body of this fingerprint would change no topic.

        Brokers send their whole table every 30 s, nearly always the one they sent before.
        """
        live, group = self._live.get(key), self._groups.get(broker_name)
        if (
            live is None
            or group is None
            or broker_id not in group.addresses
            or (live.broker_name, live.broker_id) != (broker_name, broker_id)
            or (live.fingerprint, live.removal_count) != (fingerprint, self._removal_count)
        ):
            return None
        return live.version

    def touch(self, key: BrokerKey, now_ms: int) -> None:
        """The broker gave a sign of life."""
        live = self._live.get(key)
        if live is not None:
            live.seen_at_ms = now_ms

    def version_of(self, key: BrokerKey) -> DataVersion | None:
        """The data version of the broker's last registration, None if it is not here."""
        live = self._live.get(key)
        return None if live is None else live.version

    def connection_of(self, key: BrokerKey) -> Hashable:
        """The connection of the broker's last registration, None if it is not here."""
        live = self._live.get(key)
        return None if live is None else live.connection

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> bool:
        """Add a topic's queues by hand; False, and no change, if one of the brokers is unknown."""
        queues = list(queues)
        if any(queue.broker_name not in self._groups for queue in queues):
            return False
        known = self._topics.setdefault(topic, {})
        for queue in queues:
            known[queue.broker_name] = queue
        if not known:
            del self._topics[topic]
        self.changed_topics.add(topic)
        return True

    # Brokers go

    def unregister(self, leaving: Iterable[Unregistration]) -> None:
        """Remove brokers, and what only they served."""
        gone: set[str] = set()
        reduced: set[str] = set()
        for broker in leaving:
            for name in self._end_life(broker):
                group = self._groups.get(name)
                if group is None:
                    continue
                min_id_before = min(group.addresses)
                self._remove_address(group, broker.address)
                if not group.addresses:
                    self._remove_group(group)
                    gone.add(name)
                else:
                    reduced.add(name)
                    if min(group.addresses) != min_id_before:
                        self._announce_min_id(group, broker.address, None)
        self._remove_from_topics(gone)
        self._make_read_only(reduced - gone)

    def connection_closed(self, connection: Hashable) -> list[Unregistration]:
        """The brokers that were registered through this connection."""
        return [
            _leave(key, live) for key, live in self._live.items() if live.connection == connection
        ]

    def expired(self, now_ms: int) -> list[Unregistration]:
        """The brokers that were silent for longer than they said they would be."""
        return [
            _leave(key, live)
            for key, live in self._live.items()
            if live.seen_at_ms + live.timeout_ms < now_ms
        ]

    # Administration

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, everywhere or on one cluster's brokers."""
        queues = self._topics.get(topic)
        if queues is not None:
            names = self._clusters.get(cluster, set()) if cluster else set(queues)
            self._remove_brokers_from(topic, names)

    def wipe_write_permission(self, broker_name: str) -> int:
        """Make all topics of a broker read-only; returns how many it has."""
        return self._set_permissions(broker_name, lambda before: before & ~Permission.WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Make all topics of a broker readable and writable; returns how many it has."""
        return self._set_permissions(broker_name, lambda _: READ_WRITE)

    # Questions

    def route(self, topic: str, *, uses_acting_masters: bool = False) -> TopicRoute | None:
        """Where a topic lives; None if no broker of it is known."""
        queues = self._topics.get(topic)
        if not queues:
            return None
        groups = [self._groups[name] for name in queues if name in self._groups]
        if not groups:
            return None
        brokers = [group.to_data() for group in groups]
        if uses_acting_masters and not topic.startswith(MEMBER_TOPIC_PREFIX):
            brokers = [_with_acting_master(broker, queues) for broker in brokers]
        return TopicRoute(
            brokers=brokers,
            filter_servers=self._filter_servers_of(groups),
            queues=list(queues.values()),
            queue_mappings=self._mappings.get(topic),
        )

    def topics(self) -> list[str]:
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        brokers = self._clusters.get(cluster, set())
        return [topic for topic, queues in self._topics.items() if not brokers.isdisjoint(queues)]

    def topics_where(self, accepts_flag: Callable[[int], bool]) -> list[str]:
        """Topics whose first queue data has a system flag of this kind."""
        return [
            topic
            for topic, queues in self._topics.items()
            if accepts_flag(next(iter(queues.values())).topic_system_flag)
        ]

    def clusters(self) -> dict[str, list[str]]:
        return {cluster: sorted(names) for cluster, names in self._clusters.items()}

    def brokers(self) -> dict[str, BrokerData]:
        return {name: group.to_data() for name, group in self._groups.items()}

    def broker(self, broker_name: str) -> BrokerData | None:
        group = self._groups.get(broker_name)
        return None if group is None else group.to_data()

    def some_address(self) -> str | None:
        for group in self._groups.values():
            if group.addresses:
                return group.addresses[min(group.addresses)]
        return None

    # Steps of a registration

    def _join_group(self, registration: Registration) -> _Group:
        names = self._clusters.setdefault(registration.cluster, set())
        names.add(registration.broker_name)
        group = self._groups.get(registration.broker_name)
        if group is None:
            group = _Group(
                cluster=registration.cluster, broker_name=registration.broker_name, addresses={}
            )
            self._groups[registration.broker_name] = group
        described = (bool(registration.is_acting_master_enabled), registration.zone_name)
        if described != (group.is_acting_master_enabled, group.zone_name):
            group.is_acting_master_enabled, group.zone_name = described
            self.generation += 1
        return group

    def _forget_other_ids_of(self, group: _Group, registration: Registration) -> None:
        """A slave that became master keeps its address but not its old id."""
        if group.addresses.get(registration.broker_id) != registration.address:
            self._remove_address(group, registration.address)

    def _is_outranked(self, group: _Group, registration: Registration) -> bool:
        """Does another live broker hold this id by a higher election?"""
        holder = group.addresses.get(registration.broker_id)
        if holder is None or holder == registration.address:
            return False
        live = self._live.get(BrokerKey(registration.cluster, holder))
        return live is not None and live.version.state_version > registration.version.state_version

    def _speaks_for_group(self, group: _Group, registration: Registration) -> bool:
        """Topics are taken from the master, or from the first slave of a group that can act."""
        if registration.broker_id == MASTER_ID:
            return True
        return registration.is_acting_master_enabled is not None and (
            registration.broker_id == min(group.addresses)
        )

    def _take_topics(
        self,
        group: _Group,
        registration: Registration,
        is_first: bool,
        deletes_absent_topics: bool,
    ) -> None:
        name = registration.broker_name
        is_changed = is_first or self.version_of(registration.key) != registration.version
        if deletes_absent_topics and not registration.queue_mappings:
            absent = [
                t for t, q in self._topics.items() if name in q and t not in registration.topics
            ]
            for topic in absent:
                self._remove_brokers_from(topic, {name})
        is_read_only = registration.broker_id != MASTER_ID and group.is_acting_master_enabled
        made: dict[tuple[int, ...], QueueData] = {}  # few of them differ: topics share the rest
        for topic, config in registration.topics.items():
            known = self._topics.get(topic)
            before = None if known is None else known.get(name)
            if before is not None and not is_changed:
                continue
            asked = (
                config.permission,
                config.read_queue_count,
                config.system_flag,
                config.write_queue_count,
            )
            queues = made.get(asked)
            if queues is None:
                queues = made[asked] = _queue_data(name, config, is_read_only)
            if queues != before:
                self._put_queues(topic, queues)
        for topic, mapping in registration.queue_mappings.items():
            owner = mapping.broker_name or name
            is_new = owner not in self._mappings.get(topic, ())
            if topic in self._topics and (is_changed or is_new):
                self._mappings.setdefault(topic, {})[owner] = mapping
                self.changed_topics.add(topic)

    def _put_queues(self, topic: str, queues: QueueData) -> None:
        self._topics.setdefault(topic, {})[queues.broker_name] = queues
        self.changed_topics.add(topic)

    def _take_filter_servers(self, registration: Registration) -> None:
        if registration.filter_servers is None:
            return
        before = self._filter_servers.get(registration.key, [])
        if before == registration.filter_servers:
            return
        if registration.filter_servers:
            self._filter_servers[registration.key] = registration.filter_servers
        else:
            del self._filter_servers[registration.key]
        self.generation += 1

    def _master_for(self, group: _Group, registration: Registration, is_first: bool) -> Registered:
        master = group.addresses.get(MASTER_ID)
        if registration.broker_id == MASTER_ID or master is None:
            return Registered(is_first=is_first)
        live = self._live.get(BrokerKey(registration.cluster, master))
        if live is None:
            return Registered(is_first=is_first)
        return Registered(master_address=master, ha_address=live.ha_address, is_first=is_first)

    # Steps of a removal

    def _end_life(self, broker: Unregistration) -> list[str]:
        """Forget a process; returns the names it goes by.

        Its life is known under the name it registered with last. It ends under all of them:
        nothing else would ever remove the others.
        """
        names = {broker.broker_name}
        live = self._live.get(broker.key)
        if live is not None and live.broker_name == broker.broker_name:
            del self._live[broker.key]
            self._filter_servers.pop(broker.key, None)
            names |= {
                name
                for name in self._clusters.get(broker.cluster, ())
                if broker.address in self._groups[name].addresses.values()
            }
        return sorted(names)

    def _remove_address(self, group: _Group, address: str) -> None:
        for number in [n for n, a in group.addresses.items() if a == address]:
            del group.addresses[number]
            self.generation += 1

    def _remove_group(self, group: _Group) -> None:
        del self._groups[group.broker_name]
        # A broker may have named another cluster since: look at all of them.
        for cluster, names in list(self._clusters.items()):
            names.discard(group.broker_name)
            if not names:
                del self._clusters[cluster]

    def _remove_from_topics(self, gone: set[str]) -> None:
        if not gone:
            return
        for topic in list(self._topics):
            self._remove_brokers_from(topic, gone)

    def _remove_brokers_from(self, topic: str, gone: set[str]) -> None:
        queues, mappings = self._topics[topic], self._mappings.get(topic, {})
        for name in gone & queues.keys():
            del queues[name]
            mappings.pop(name, None)
            self.changed_topics.add(topic)
            self._removal_count += 1
        if not queues:
            del self._topics[topic]
        if not queues or not mappings:
            self._mappings.pop(topic, None)

    def _make_read_only(self, names: set[str]) -> None:
        """Groups that act without a master serve what they have but take nothing new."""
        for name in names:
            group = self._groups[name]
            if group.is_acting_master_enabled and MASTER_ID not in group.addresses:
                self.wipe_write_permission(name)

    def _set_permissions(self, broker_name: str, change: Callable[[int], int]) -> int:
        count = 0
        for topic, queues in self._topics.items():
            queue = queues.get(broker_name)
            if queue is not None:
                queues[broker_name] = replace(queue, permission=change(queue.permission))
                self.changed_topics.add(topic)
                count += 1
        return count

    # Small answers

    def _filter_servers_of(self, groups: list[_Group]) -> dict[str, list[str]]:
        if not self._filter_servers:
            return {}
        found = {}
        for group in groups:
            for address in group.addresses.values():
                servers = self._filter_servers.get(BrokerKey(group.cluster, address))
                if servers is not None:
                    found[address] = servers
        return found

    def _announce_min_id(
        self, group: _Group, offline_address: str | None, ha_address: str | None
    ) -> None:
        if not group.is_acting_master_enabled:
            return
        min_id = min(group.addresses)
        told = dict(group.addresses)
        if offline_address is None and len(told) > 1:
            del told[min_id]  # who has just come knows
        self._on_min_id_change(
            MinBrokerIdChange(
                broker_name=group.broker_name,
                min_id=min_id,
                min_address=group.addresses[min_id],
                offline_address=offline_address,
                ha_address=ha_address,
                member_addresses=tuple(told.values()),
            )
        )


def _leave(key: BrokerKey, live: LiveBroker) -> Unregistration:
    return Unregistration(
        cluster=key.cluster,
        broker_name=live.broker_name,
        broker_id=live.broker_id,
        address=key.address,
    )


def _queue_data(broker_name: str, config: TopicConfig, is_read_only: bool) -> QueueData:
    permission = config.permission & ~Permission.WRITE if is_read_only else config.permission
    return QueueData(
        broker_name=broker_name,
        permission=permission,
        read_queue_count=config.read_queue_count,
        topic_system_flag=config.system_flag,
        write_queue_count=config.write_queue_count,
    )


def _with_acting_master(broker: BrokerData, queues: Mapping[str, QueueData]) -> BrokerData:
    """Show the first slave as id 0 while its group serves without a master."""
    if not broker.is_acting_master_enabled or MASTER_ID in broker.addresses:
        return broker
    if not broker.addresses or queues[broker.broker_name].permission & Permission.WRITE:
        return broker
    first = min(broker.addresses)
    addresses = {MASTER_ID: broker.addresses[first]} | {
        number: address for number, address in broker.addresses.items() if number != first
    }
    return replace(broker, addresses=addresses)
