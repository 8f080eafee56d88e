"""The route table against a model made of flat facts, step by step."""

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Struct
from msgspec.structs import replace

from emberq.model.data_version import DataVersion
from emberq.model.route import QueueData
from emberq.model.static_topic import StaticTopicMapping
from emberq.model.topic import TopicConfig
from emberq.nameserver.route_answers import RouteAnswers
from emberq.nameserver.route_table import (
    BROKER_TIMEOUT_DEFAULT_MS,
    MinBrokerIdChange,
    Registered,
    Registration,
    RegistrationRefused,
    RouteTable,
    Unregistration,
)
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.fastjson import Dialect

pytestmark = pytest.mark.property

WRITE = 2
TOPICS = ["T1", "T2", "T3"]

clusters = st.sampled_from(["C1", "C2"])
names = st.sampled_from(["a", "b", "c"])
addresses = st.sampled_from(["h1:1", "h2:1", "h3:1", "h4:1"])
ids = st.sampled_from([0, 0, 1, 2])
topics = st.sampled_from(TOPICS)
connections = st.sampled_from(["x", "y", "z"])
topic_configs = st.builds(
    TopicConfig,
    permission=st.sampled_from([2, 4, 6]),
    read_queue_count=st.sampled_from([4, 8]),
    write_queue_count=st.sampled_from([4, 8]),
    system_flag=st.sampled_from([0, 1, 2, 3]),
)
# Only the owner tells mappings apart here: the table passes the rest on.
mappings = st.builds(
    StaticTopicMapping,
    broker_name=st.sampled_from([None, "a", "other"]),
    epoch=st.integers(0, 1),
)
registrations = st.builds(
    Registration,
    cluster=clusters,
    broker_name=names,
    broker_id=ids,
    address=addresses,
    ha_address=st.sampled_from(["ha1", "ha2"]),
    timeout_ms=st.sampled_from([None, 1_000, 10_000]),
    is_acting_master_enabled=st.sampled_from([None, False, True]),
    zone_name=st.sampled_from([None, "z1"]),
    version=st.builds(
        DataVersion, counter=st.integers(0, 2), state_version=st.sampled_from([0, 0, 1])
    ),
    topics=st.dictionaries(topics, topic_configs, max_size=3),
    queue_mappings=st.one_of(st.just({}), st.dictionaries(topics, mappings, max_size=2)),
    filter_servers=st.sampled_from([None, [], ["f1"], ["f1", "f2"]]),
)
unregistrations = st.builds(
    Unregistration, cluster=clusters, broker_name=names, broker_id=ids, address=addresses
)

Key = tuple[str, str]
# Name, smallest id, who left, its HA address, who is told.
Notice = tuple[str, int, str | None, str | None, frozenset[str]]


class Life(Struct):
    """What is remembered of one process."""

    name: str
    number: int
    seen_at_ms: int
    timeout_ms: int
    version: DataVersion
    connection: str
    ha_address: str


class Model:
    """The same rules on sets of rows; slow, and simple enough to believe."""

    def __init__(self) -> None:
        self.members: dict[tuple[str, int], str] = {}  # (name, id) → address
        self.traits: dict[str, tuple[str, bool, str | None]] = {}  # name → cluster, acting, zone
        self.named: set[Key] = set()  # (cluster, name)
        self.lives: dict[Key, Life] = {}
        self.filters: dict[Key, list[str]] = {}
        self.rows: dict[Key, tuple[int, int, int, int]] = {}  # (topic, name) → queues
        self.maps: dict[Key, StaticTopicMapping] = {}  # (topic, owner)
        self.notices: list[Notice] = []
        self.touched: set[str] = set()  # names of the unregistration under way

    def ids_of(self, name: str) -> dict[int, str]:
        return {number: a for (owner, number), a in self.members.items() if owner == name}

    def register(
        self, said: Registration, connection: str, now_ms: int, deletes: bool
    ) -> Registered | None:
        name, key = said.broker_name, (said.cluster, said.address)
        is_first = said.broker_id not in self.ids_of(name)
        if is_first and len(said.topics) == 1:
            return None
        self.named.add((said.cluster, name))
        cluster = self.traits[name][0] if name in self.traits else said.cluster
        self.traits[name] = (cluster, bool(said.is_acting_master_enabled), said.zone_name)
        smallest = min(self.ids_of(name), default=0)
        for number, address in self.ids_of(name).items():
            if address == said.address and number != said.broker_id:
                del self.members[name, number]
        if self._is_outranked(said):
            if key in self.lives:
                life = self.lives[key]
                self.unregister(
                    [
                        Unregistration(
                            cluster=said.cluster,
                            broker_name=life.name,
                            broker_id=life.number,
                            address=said.address,
                        )
                    ]
                )
            return Registered()
        self.members[name, said.broker_id] = said.address
        is_slave = said.broker_id != 0
        is_first_slave = said.broker_id == min(self.ids_of(name))
        if not is_slave or (said.is_acting_master_enabled is not None and is_first_slave):
            before = self.lives.get(key)
            is_changed = is_first or before is None or before.version != said.version
            self._take(said, is_changed, is_slave, deletes)
        self.lives[key] = Life(
            name,
            said.broker_id,
            now_ms,
            said.timeout_ms or BROKER_TIMEOUT_DEFAULT_MS,
            said.version,
            connection,
            said.ha_address,
        )
        self._take_filters(said, key)
        if said.broker_id < smallest:
            self._notice(name, None, said.ha_address)
        master = self.members.get((name, 0), "")
        head = self.lives.get((said.cluster, master))
        if not is_slave or head is None:
            return Registered(is_first=is_first)
        return Registered(master_address=master, ha_address=head.ha_address, is_first=is_first)

    def _is_outranked(self, said: Registration) -> bool:
        holder = self.members.get((said.broker_name, said.broker_id), said.address)
        rival = self.lives.get((said.cluster, holder))
        return (
            holder != said.address
            and rival is not None
            and rival.version.state_version > said.version.state_version
        )

    def _take_filters(self, said: Registration, key: Key) -> None:
        if said.filter_servers is not None:
            self.filters.pop(key, None)
            if said.filter_servers:
                self.filters[key] = said.filter_servers

    def _take(self, said: Registration, is_changed: bool, is_slave: bool, deletes: bool) -> None:
        name = said.broker_name
        if deletes and not said.queue_mappings:
            for topic, owner in list(self.rows):
                if owner == name and topic not in said.topics:
                    self._drop_row(topic, name)
        for topic, config in said.topics.items():
            if is_changed or (topic, name) not in self.rows:
                permission = config.permission
                if is_slave and self.traits[name][1]:
                    permission &= ~WRITE
                self.rows[topic, name] = (
                    permission,
                    config.read_queue_count,
                    config.write_queue_count,
                    config.system_flag,
                )
        for topic, mapping in said.queue_mappings.items():
            owner = mapping.broker_name or name
            if self.has_topic(topic) and (is_changed or (topic, owner) not in self.maps):
                self.maps[topic, owner] = mapping

    def has_topic(self, topic: str) -> bool:
        return any(known == topic for known, _ in self.rows)

    def _drop_row(self, topic: str, name: str) -> None:
        del self.rows[topic, name]
        self.maps.pop((topic, name), None)
        if not self.has_topic(topic):
            for key in [key for key in self.maps if key[0] == topic]:
                del self.maps[key]

    def _notice(self, name: str, offline: str | None, ha_address: str | None) -> None:
        if not self.traits[name][1]:
            return
        members = self.ids_of(name)
        told = {
            address
            for number, address in members.items()
            if offline is not None or len(members) == 1 or number != min(members)
        }
        self.notices.append((name, min(members), offline, ha_address, frozenset(told)))

    def unregister(self, leaving: list[Unregistration]) -> None:
        for broker in leaving:
            for name in self._end_life(broker):
                members = self.ids_of(name)
                for number, address in members.items():
                    if address == broker.address:
                        del self.members[name, number]
                left = self.ids_of(name)
                if members and not left:
                    del self.traits[name]
                    self.named = {(c, n) for c, n in self.named if n != name}
                elif left and min(left) != min(members):
                    self._notice(name, broker.address, None)
        for topic, name in list(self.rows):
            left = self.ids_of(name)
            if not left:
                self._drop_row(topic, name)
            elif self.traits[name][1] and 0 not in left and name in self.touched:
                permission, reads, writes, flag = self.rows[topic, name]
                self.rows[topic, name] = (permission & ~WRITE, reads, writes, flag)
        self.touched.clear()

    def _end_life(self, broker: Unregistration) -> list[str]:
        names = {broker.broker_name}
        key = (broker.cluster, broker.address)
        if key in self.lives and self.lives[key].name == broker.broker_name:
            del self.lives[key]
            self.filters.pop(key, None)
            for (name, _), held in self.members.items():
                if held == broker.address and (broker.cluster, name) in self.named:
                    names.add(name)
        self.touched |= names
        return sorted(names)

    def set_permission(self, name: str, *, is_wiped: bool) -> int:
        mine = [key for key in self.rows if key[1] == name]
        for key in mine:
            permission, reads, writes, flag = self.rows[key]
            self.rows[key] = (permission & ~WRITE if is_wiped else 6, reads, writes, flag)
        return len(mine)

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        for known, name in list(self.rows):
            if known == topic and (cluster is None or (cluster, name) in self.named):
                self._drop_row(topic, name)

    def route(self, topic: str, *, acting: bool) -> dict[str, Any] | None:
        rows = {name: row for (known, name), row in self.rows.items() if known == topic}
        if not rows:
            return None
        brokers = {}
        filters = {}
        for name, row in rows.items():
            cluster, can_act, zone = self.traits[name]
            members = self.ids_of(name)
            for address in members.values():
                if (cluster, address) in self.filters:
                    filters[address] = self.filters[cluster, address]
            if acting and can_act and 0 not in members and not row[0] & WRITE:
                members[0] = members.pop(min(members))
            brokers[name] = (cluster, members, can_act, zone)
        maps = {owner: mapping for (known, owner), mapping in self.maps.items() if known == topic}
        return {"brokers": brokers, "filters": filters, "maps": maps or None, "queues": rows}


class RouteTableMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.notices: list[Notice] = []
        self.table = RouteTable(self.hear)
        self.model = Model()
        self.order: dict[str, str] = {}
        self.acting = False
        self.now_ms = 0
        self.is_asking = True
        self.said: list[Registration] = []
        self.answers = RouteAnswers(self.table, self.order.get, lambda: self.acting)

    def hear(self, change: MinBrokerIdChange) -> None:
        assert self.table.brokers()[change.broker_name].addresses[change.min_id] == (
            change.min_address
        )
        told = frozenset(change.member_addresses)
        self.notices.append(
            (change.broker_name, change.min_id, change.offline_address, change.ha_address, told)
        )

    @rule(said=registrations, connection=connections, deletes=st.sampled_from([False, False, True]))
    def register(self, said: Registration, connection: str, deletes: bool) -> None:
        self.said.append(said)
        expected = self.model.register(said, connection, self.now_ms, deletes)
        if expected is None:
            with pytest.raises(RegistrationRefused):
                self.table.register(said, connection, self.now_ms)
            return
        registered = self.table.register(
            said if deletes else self.shortened(said),
            connection,
            self.now_ms,
            deletes_absent_topics=deletes,
        )
        assert registered == expected

    @precondition(lambda self: self.said)
    @rule(back=st.integers(1, 3), header=registrations, connection=connections, same=st.booleans())
    def register_again(self, back: int, header: Registration, connection: str, same: bool) -> None:
        """Most bodies are sent again and again; what the header says may be new."""
        said = self.said[-min(back, len(self.said))]
        if not same:
            said = replace(
                said,
                ha_address=header.ha_address,
                timeout_ms=header.timeout_ms,
                is_acting_master_enabled=header.is_acting_master_enabled,
                zone_name=header.zone_name,
            )
        self.register(said, connection, deletes=False)

    def shortened(self, said: Registration) -> Registration:
        """As the handler does it: a body that is known already is not read."""
        body = (said.version, said.topics, said.queue_mappings, said.filter_servers)
        fingerprint = repr(body).encode()
        version = self.table.repeated_version(
            said.key, said.broker_name, said.broker_id, fingerprint
        )
        if version is None:
            return replace(said, fingerprint=fingerprint)
        return replace(
            said,
            version=version,
            topics={},
            queue_mappings={},
            filter_servers=None,
            fingerprint=fingerprint,
            is_repetition=True,
        )

    @rule(leaving=st.lists(unregistrations, min_size=1, max_size=3))
    def unregister(self, leaving: list[Unregistration]) -> None:
        self.table.unregister(leaving)
        self.model.unregister(leaving)

    @rule(connection=connections)
    def close(self, connection: str) -> None:
        ended = [key for key, life in self.model.lives.items() if life.connection == connection]
        self.leave(self.table.connection_closed(connection), ended)

    @rule(silence_ms=st.sampled_from([0, 500, 1_000, 1_001, 9_500, BROKER_TIMEOUT_DEFAULT_MS]))
    def wait(self, silence_ms: int) -> None:
        self.now_ms += silence_ms
        ended = [
            key
            for key, life in self.model.lives.items()
            if self.now_ms - life.seen_at_ms > life.timeout_ms
        ]
        self.leave(self.table.expired(self.now_ms), ended)

    def leave(self, leaving: list[Unregistration], ended: list[Key]) -> None:
        said = {(broker.cluster, broker.broker_name, broker.address) for broker in leaving}
        lives = self.model.lives
        assert said == {(key[0], lives[key].name, key[1]) for key in ended}
        self.table.unregister(leaving)
        self.model.unregister(leaving)

    @rule(cluster=clusters, address=addresses)
    def touch(self, cluster: str, address: str) -> None:
        life = self.model.lives.get((cluster, address))
        if life is not None:
            life.seen_at_ms = self.now_ms
        key = Unregistration(cluster=cluster, broker_name="", broker_id=0, address=address).key
        self.table.touch(key, self.now_ms)

        assert self.table.version_of(key) == (None if life is None else life.version)
        assert self.table.connection_of(key) == (None if life is None else life.connection)

    @rule(name=names, is_wiped=st.booleans())
    def change_permission(self, name: str, is_wiped: bool) -> None:
        change = self.table.wipe_write_permission if is_wiped else self.table.add_write_permission

        assert change(name) == self.model.set_permission(name, is_wiped=is_wiped)

    @rule(topic=st.one_of(topics, st.just("unknown")), cluster=st.one_of(st.none(), clusters))
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.table.delete_topic(topic, cluster)
        self.model.delete_topic(topic, cluster)

    @rule(topic=topics, owners=st.lists(names, max_size=2), permission=st.sampled_from([4, 6]))
    def register_topic(self, topic: str, owners: list[str], permission: int) -> None:
        queues = [QueueData(broker_name=name, permission=permission) for name in owners]
        is_known = all(self.model.ids_of(name) for name in owners)
        if is_known:
            for name in owners:
                self.model.rows[topic, name] = (permission, 0, 0, 0)

        assert self.table.register_topic(topic, queues) == is_known

    @rule(acting=st.booleans(), topic=topics, order=st.sampled_from(["a:4", None]))
    def change_what_answers_depend_on(self, acting: bool, topic: str, order: str | None) -> None:
        self.acting = acting
        self.order.pop(topic, None)
        if order is not None:
            self.order[topic] = order
        self.answers.clear()

    @rule()
    def ask_or_fall_silent(self) -> None:
        """Changes pile up while nobody asks."""
        self.is_asking = not self.is_asking

    @invariant()
    def kept_answers_are_fresh(self) -> None:
        if not self.is_asking:
            return
        for topic in [*TOPICS, "unknown"]:
            route = self.answers.route(topic)
            for dialect in Dialect:
                expected = None if route is None else encode_body(route, dialect)
                assert self.answers.get(topic, dialect) == expected
                assert self.answers.get(topic, dialect) == expected  # kept now

    @invariant()
    def routes_agree(self) -> None:
        for topic in TOPICS:
            for acting in (False, True):
                route = self.table.route(topic, uses_acting_masters=acting)
                seen = (
                    None
                    if route is None
                    else {
                        "brokers": {
                            broker.broker_name: (
                                broker.cluster,
                                broker.addresses,
                                broker.is_acting_master_enabled,
                                broker.zone_name,
                            )
                            for broker in route.brokers
                        },
                        "filters": route.filter_servers,
                        "maps": route.queue_mappings,
                        "queues": {
                            queue.broker_name: (
                                queue.permission,
                                queue.read_queue_count,
                                queue.write_queue_count,
                                queue.topic_system_flag,
                            )
                            for queue in route.queues
                        },
                    }
                )
                assert seen == self.model.route(topic, acting=acting)

    @invariant()
    def lists_agree(self) -> None:
        rows = self.model.rows
        assert set(self.table.topics()) == {topic for topic, _ in rows}
        for cluster in ("C1", "C2"):
            assert set(self.table.topics_of_cluster(cluster)) == {
                topic for topic, name in rows if (cluster, name) in self.model.named
            }
        seen = {(cluster, name) for cluster, all_ in self.table.clusters().items() for name in all_}
        assert seen == self.model.named
        assert self.notices == self.model.notices

    @invariant()
    def nothing_is_left_over(self) -> None:
        brokers = self.table.brokers()
        clusters_seen = self.table.clusters()
        for topic in self.table.topics():
            route = self.table.route(topic)
            assert route is not None
            assert route.brokers
            assert {queue.broker_name for queue in route.queues} <= brokers.keys()
        for name, broker in brokers.items():
            assert broker.addresses
            assert len(set(broker.addresses.values())) == len(broker.addresses)
            assert name in clusters_seen[broker.cluster or ""]
        assert all(clusters_seen.values())
        assert {name for all_ in clusters_seen.values() for name in all_} == brokers.keys()
        # What lives can expire: no address without a process, no filter servers either.
        processes = {address for _, address in self.model.lives}
        assert {a for broker in brokers.values() for a in broker.addresses.values()} <= processes
        assert self.model.filters.keys() <= self.model.lives.keys()

    def teardown(self) -> None:
        self.is_asking = True
        self.kept_answers_are_fresh()
        for connection in ("x", "y", "z"):
            self.close(connection)

        assert self.table.brokers() == {}
        assert self.table.clusters() == {}
        assert self.table.topics() == []


# Without the phase that explains a failure: it takes minutes here.
RouteTableMachine.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=30,
    deadline=None,
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
TestRouteTable = RouteTableMachine.TestCase
