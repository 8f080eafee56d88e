"""Clients come, change and go in any order: groups, members and indexes always agree."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from emberq.broker.members import Client, ConsumerGroup, Consumers, GroupEvent, Manner
from emberq.broker.producers import Producers
from emberq.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)

CONNECTIONS = st.integers(0, 4)
GROUPS = st.sampled_from("GHI")
TOPICS = st.sets(st.sampled_from("TUV"))
SILENCE_MAX_MS = 10


class Members(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.consumers = Consumers()
        self.producers = Producers()
        self.consumers.on_change(self.hear)
        self.online: set[str] = set()
        self.expected: dict[tuple[str, int], tuple[str, int]] = {}
        self.expected_producers: dict[tuple[str, int], tuple[str, int]] = {}
        self.topics: dict[str, set[str]] = {}
        self.now_ms = 0

    def hear(self, group: ConsumerGroup, event: GroupEvent) -> None:
        """From its events alone a listener knows which groups are online."""
        if event is GroupEvent.EMPTIED:
            self.online.remove(group.name)
            self.topics.pop(group.name)
        else:
            assert group.members
            self.online.add(group.name)

    @rule(
        group=GROUPS,
        connection=CONNECTIONS,
        client_id=st.sampled_from(["x", "y"]),
        model=st.sampled_from(MessageModel),
        topics=st.none() | TOPICS,
        version=st.integers(0, 3),
    )
    def consumer_beats(
        self,
        group: str,
        connection: int,
        client_id: str,
        model: MessageModel,
        topics: set[str] | None,
        version: int,
    ) -> None:
        manner = Manner(
            ConsumeType.CONSUME_PASSIVELY, model, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        )
        subscriptions = (
            None
            if topics is None
            else [Subscription(topic=topic, version=version) for topic in topics]
        )
        is_new = (group, connection) not in self.expected
        known = self.topics.get(group, set())

        is_changed = self.consumers.register(
            group, Client(connection, client_id, "JAVA", 1), manner, subscriptions, self.now_ms
        )

        assert is_changed == (is_new or (topics is not None and topics != known))
        self.expected[group, connection] = (client_id, self.now_ms)
        self.topics[group] = known if topics is None else topics

    @rule(group=GROUPS, connection=CONNECTIONS, client_id=st.sampled_from(["x", "y"]))
    def producer_beats(self, group: str, connection: int, client_id: str) -> None:
        self.producers.register(group, Client(connection, client_id, "JAVA", 1), self.now_ms)
        self.expected_producers[group, connection] = (client_id, self.now_ms)

    @rule(group=GROUPS, connection=CONNECTIONS)
    def unregister(self, group: str, connection: int) -> None:
        was_there = self.consumers.unregister(group, connection)
        assert was_there == (self.expected.pop((group, connection), None) is not None)
        was_there = self.producers.unregister(group, connection)
        assert was_there == (self.expected_producers.pop((group, connection), None) is not None)

    @rule(connection=CONNECTIONS)
    def close(self, connection: int) -> None:
        left = self.consumers.connection_closed(connection)
        assert left == sorted(group for group, other in self.expected if other == connection)
        self.producers.connection_closed(connection)
        for table in (self.expected, self.expected_producers):
            for key in [key for key in table if key[1] == connection]:
                del table[key]

    @rule(passed_ms=st.integers(0, SILENCE_MAX_MS + 1))
    def expire(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        gone = [
            *self.consumers.expire(self.now_ms, SILENCE_MAX_MS),
            *self.producers.expire(self.now_ms, SILENCE_MAX_MS),
        ]
        assert all(self.now_ms - member.seen_at_ms > SILENCE_MAX_MS for member in gone)
        for table in (self.expected, self.expected_producers):
            for key, (_, seen_at_ms) in list(table.items()):
                if self.now_ms - seen_at_ms > SILENCE_MAX_MS:
                    del table[key]

    @invariant()
    def members_are_those_that_came_and_did_not_go(self) -> None:
        found = {
            (name, connection): (member.client_id, member.seen_at_ms)
            for name in self.consumers.names()
            for connection, member in self._group(name).members.items()
        }
        assert found == self.expected
        assert self.online == {group for group, _ in self.expected}
        producers = {
            (name, member.connection): (member.client_id, member.seen_at_ms)
            for name in self.producers.groups()
            for member in self.producers.members(name)
        }
        assert producers == self.expected_producers

    @invariant()
    def no_group_is_without_members(self) -> None:
        assert all(self._group(name).members for name in self.consumers.names())
        assert all(self.producers.members(name) for name in self.producers.groups())

    @invariant()
    def indexes_agree_with_the_groups(self) -> None:
        for connection in range(5):
            assert self.consumers.groups_of(connection) == {
                group for group, other in self.expected if other == connection
            }
        for topic in "TUV":
            assert self.consumers.groups_subscribing(topic) == {
                name
                for name in self.consumers.names()
                if self._group(name).subscription(topic) is not None
            }
        for name, topics in self.topics.items():
            assert self._group(name).subscriptions.keys() == topics

    @invariant()
    def a_producers_client_id_leads_to_a_connection_that_has_it(self) -> None:
        by_id: dict[str, set[object]] = {}
        for (_, connection), (client_id, _) in self.expected_producers.items():
            by_id.setdefault(client_id, set()).add(connection)
        for client_id in "xy":
            found = self.producers.by_client_id(client_id)
            assert (found is not None) <= (client_id in by_id)
            if found is not None:
                assert found.connection in by_id[client_id]

    def _group(self, name: str) -> ConsumerGroup:
        group = self.consumers.get(name)
        assert group is not None
        return group


Members.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestMembers = Members.TestCase
