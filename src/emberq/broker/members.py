"""Which clients are online, and in which consumer groups. No sockets, no clock.

A member is known by its connection: one client id may come in over several of them. Producers
are in `producers.py`.
"""

from collections.abc import Callable, Collection, Hashable
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from emberq.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)

# Subscriptions of pulls that are remembered; above it further ones are not.
CARRIED_MAX = 100_000


class Client(Struct, frozen=True):
    """Who is at the other end of a connection, as its heartbeat says."""

    connection: Hashable
    client_id: str
    language: str
    version: int


class Member(Struct, eq=False):
    """A client in one group."""

    client: Client
    seen_at_ms: int

    @property
    def connection(self) -> Hashable:
        return self.client.connection

    @property
    def client_id(self) -> str:
        return self.client.client_id

    @property
    def language(self) -> str:
        return self.client.language

    @property
    def version(self) -> int:
        return self.client.version


class GroupEvent(Enum):
    """What listeners hear about."""

    # Members came, or the set of topics is another: members should share out queues again.
    JOINED = "joined"
    # A member is gone and others are left.
    LEFT = "left"
    # The last member is gone, and the group with it.
    EMPTIED = "emptied"


class ConsumerGroup(Struct, eq=False):
    """The online part of a group; it exists as long as it has members."""

    name: str
    consume_type: ConsumeType
    message_model: MessageModel
    consume_from_where: ConsumeFromWhere
    members: dict[Hashable, Member] = {}
    subscriptions: dict[str, Subscription] = {}
    # Counts changes of all the above but the members: see `Presence` in handlers/heartbeat.py.
    revision: int = 0

    def subscription(self, topic: str) -> Subscription | None:
        return self.subscriptions.get(topic)

    def member_by_client_id(self, client_id: str | None) -> Member | None:
        for member in self.members.values():
            if member.client_id == client_id:
                return member
        return None

    def client_ids(self) -> list[str]:
        return [member.client_id for member in self.members.values()]


class Manner(Struct, frozen=True):
    """How a group consumes; the member that spoke last decides."""

    consume_type: ConsumeType
    message_model: MessageModel
    consume_from_where: ConsumeFromWhere


Listener = Callable[[ConsumerGroup, GroupEvent], None]


class Consumers:
    """All consumer groups that have members online, and what others carried with their pulls."""

    def __init__(self) -> None:
        self._groups: dict[str, ConsumerGroup] = {}
        self._groups_of: dict[Hashable, set[str]] = {}
        self._groups_by_topic: dict[str, set[str]] = {}
        self._carried: dict[tuple[str, str], Subscription] = {}  # by group and topic
        self._listeners: list[Listener] = []

    def on_change(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def get(self, name: str) -> ConsumerGroup | None:
        return self._groups.get(name)

    def names(self) -> list[str]:
        return list(self._groups)

    def groups_of(self, connection: Hashable) -> set[str]:
        return set(self._groups_of.get(connection, ()))

    def groups_subscribing(self, topic: str) -> set[str]:
        return set(self._groups_by_topic.get(topic, ()))

    def subscription(self, name: str, topic: str) -> Subscription | None:
        """What a group's members say it subscribes, or else what its pulls carried lately."""
        group = self._groups.get(name)
        found = None if group is None else group.subscriptions.get(topic)
        return self._carried.get((name, topic)) if found is None else found

    def note_carried(self, name: str, topic: str, subscription: Subscription, now_ms: int) -> None:
        """A pull of a group told its subscription itself; its version is the time, as official
        brokers have it."""
        if len(self._carried) >= CARRIED_MAX and (name, topic) not in self._carried:
            return
        self._carried[name, topic] = replace(subscription, version=now_ms)

    def expire_carried(self, now_ms: int, age_max_ms: int) -> None:
        """Forget what no pull has carried for so long."""
        oldest_ms = now_ms - age_max_ms
        for key in [key for key, it in self._carried.items() if it.version < oldest_ms]:
            del self._carried[key]

    def member(self, name: str, client_id: str | None) -> Member | None:
        group = self._groups.get(name)
        return None if group is None else group.member_by_client_id(client_id)

    def register(
        self,
        name: str,
        client: Client,
        manner: Manner,
        subscriptions: Collection[Subscription] | None,
        now_ms: int,
    ) -> bool:
        """Note that a client is alive and what it subscribes; None: as before.

        True if a connection is new or the set of topics is another. A subscription's new version
        is stored but changes nothing for the other members.
        """
        group = self._groups.get(name)
        if group is None:
            group = ConsumerGroup(
                name, manner.consume_type, manner.message_model, manner.consume_from_where
            )
            self._groups[name] = group
        is_new = self._note_member(group, client, now_ms)
        _note_manner(group, manner)
        is_changed = subscriptions is not None and self._note_subscriptions(group, subscriptions)
        if is_new or is_changed:
            self._tell(group, GroupEvent.JOINED)
        return is_new or is_changed

    def unregister(self, name: str, connection: Hashable) -> bool:
        """Take one client out of one group; False if it was not in it."""
        group = self._groups.get(name)
        if group is None or not self._remove_member(group, connection):
            return False
        self._tell(group, GroupEvent.LEFT if group.members else GroupEvent.EMPTIED)
        return True

    def connection_closed(self, connection: Hashable) -> list[str]:
        """Take a client out of all its groups; returns their names."""
        names = sorted(self._groups_of.get(connection, ()))
        for name in names:
            self.unregister(name, connection)
        return names

    def expire(self, now_ms: int, silence_max_ms: int) -> list[Member]:
        """Remove and return the members that were silent for longer."""
        oldest_ms = now_ms - silence_max_ms
        silent = [
            (group, member)
            for group in self._groups.values()
            for member in group.members.values()
            if member.seen_at_ms < oldest_ms
        ]
        for group, member in silent:
            self.unregister(group.name, member.connection)
        return [member for _, member in silent]

    def _note_member(self, group: ConsumerGroup, client: Client, now_ms: int) -> bool:
        member = group.members.get(client.connection)
        if member is None:
            group.members[client.connection] = Member(client, now_ms)
            self._groups_of.setdefault(client.connection, set()).add(group.name)
            return True
        member.client = client
        member.seen_at_ms = now_ms
        return False

    def _note_subscriptions(
        self, group: ConsumerGroup, subscriptions: Collection[Subscription]
    ) -> bool:
        """What the last heartbeat says is what the group subscribes."""
        is_changed = False
        topics = set()
        for subscription in subscriptions:
            topic = subscription.topic or ""
            topics.add(topic)
            known = group.subscriptions.get(topic)
            if known is None:
                self._groups_by_topic.setdefault(topic, set()).add(group.name)
                is_changed = True
            elif subscription.version <= known.version:
                continue
            group.subscriptions[topic] = subscription
            group.revision += 1
        for topic in group.subscriptions.keys() - topics:
            self._remove_subscription(group, topic)
            is_changed = True
        return is_changed

    def _remove_subscription(self, group: ConsumerGroup, topic: str) -> None:
        del group.subscriptions[topic]
        group.revision += 1
        names = self._groups_by_topic[topic]
        names.discard(group.name)
        if not names:
            del self._groups_by_topic[topic]

    def _remove_member(self, group: ConsumerGroup, connection: Hashable) -> bool:
        if group.members.pop(connection, None) is None:
            return False
        names = self._groups_of[connection]
        names.discard(group.name)
        if not names:
            del self._groups_of[connection]
        if not group.members:
            for topic in list(group.subscriptions):
                self._remove_subscription(group, topic)
            del self._groups[group.name]
        return True

    def _tell(self, group: ConsumerGroup, event: GroupEvent) -> None:
        for listener in self._listeners:
            listener(group, event)


def _note_manner(group: ConsumerGroup, manner: Manner) -> None:
    if (group.consume_type, group.message_model, group.consume_from_where) != (
        manner.consume_type,
        manner.message_model,
        manner.consume_from_where,
    ):
        group.consume_type = manner.consume_type
        group.message_model = manner.message_model
        group.consume_from_where = manner.consume_from_where
        group.revision += 1
