"""Clients say that they are there (34), leave (35), ask for their group (38) and whether the
broker could filter for them (46)."""

import logging
from collections.abc import Callable, Collection
from hashlib import blake2b
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.members import Client, ConsumerGroup, Consumers, Manner, Member
from emberq.broker.producers import Producers
from emberq.broker.topics import Topics
from emberq.errors import EmberqError, ProtocolError, RequestRejected
from emberq.model.group import GroupConfig
from emberq.model.subscription import TAG_EXPRESSION, ConsumeType, Subscription
from emberq.model.system_topics import retry_topic
from emberq.model.topic import TopicFlag
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.groups import ClientCheck, ConsumerIds
from emberq.protocol.bodies.heartbeat import ConsumerPresence, Heartbeat, with_own_tag_codes
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.headers.groups import GetConsumerListByGroup
from emberq.protocol.languages import Language
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry, Request

log = logging.getLogger(__name__)

# Groups in one heartbeat: a client that invents names must not fill the tables.
GROUPS_PER_CLIENT_MAX = 10_000
# Groups whose last fingerprint is remembered, online or not.
FINGERPRINTS_MAX = 100_000


class SubscriptionFilters(Protocol):
    """Where the SQL expressions of groups are compiled and kept."""

    def register(
        self, group: str, subscriptions: Collection[Subscription], now_ms: int
    ) -> object: ...


class _GroupSeen(Struct, frozen=True, eq=False):
    """What a heartbeat found in one group, to tell whether its repetition would find the same."""

    group: ConsumerGroup
    revision: int
    member: Member
    config: GroupConfig
    retry_topic: str


class _Presence(Struct, frozen=True, eq=False):
    """The last heartbeat of a connection, all of whose groups exist."""

    digest: bytes
    client: Client
    fingerprint: int
    groups: list[_GroupSeen]
    producers: list[tuple[str, Member]]


class HeartbeatHandlers:
    def __init__(
        self,
        *,
        consumers: Consumers,
        producers: Producers,
        topics: Topics,
        groups: Groups,
        filters: SubscriptionFilters,
        compile_filter: Callable[[str], object],
        config: Callable[[], BrokerConfig],
        now_ms: Callable[[], int],
        steady_ms: Callable[[], int],
    ) -> None:
        self._consumers = consumers
        self._producers = producers
        self._topics = topics
        self._groups = groups
        self._filters = filters
        self._compile_filter = compile_filter
        self._config = config
        self._now_ms = now_ms
        # Silence is measured by a clock that does not step.
        self._steady_ms = steady_ms
        self._fingerprints: dict[str, int] = {}
        self._presences: dict[Connection, _Presence] = {}

    def add_to(self, registry: HandlerRegistry) -> None:
        wait_max_ms = float(self._config().wait_time_mills_in_heartbeat_queue)
        registry.add(RequestCode.HEART_BEAT, self.heartbeat, wait_max_ms=wait_max_ms)
        registry.add(RequestCode.UNREGISTER_CLIENT, self.unregister)
        registry.add_typed(GetConsumerListByGroup, self.list_members)
        registry.add(RequestCode.CHECK_CLIENT_CONFIG, self.check_client)

    def connection_closed(self, connection: Connection) -> None:
        self._presences.pop(connection, None)

    def heartbeat(self, command: Command, connection: Connection) -> Command:
        presence = self._presences.get(connection)
        digest = blake2b(command.body, digest_size=16).digest()
        if presence is not None and self._is_repeated(presence, digest, command):
            self._touch(presence)
            return _heartbeat_answer(command, is_changed=presence.fingerprint == 0)
        beat = decode_body(Heartbeat, command.body)
        if len(beat.consumers) + len(beat.producers) > GROUPS_PER_CLIENT_MAX:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"more than {GROUPS_PER_CLIENT_MAX} groups in one heartbeat",
            )
        client = Client(connection, beat.client_id, _language(command), command.version)
        is_changed = beat.fingerprint == 0  # which is all that the first form of heartbeats knows
        seen = []
        for consumer in beat.consumers:
            if not self._is_allowed(consumer):
                continue
            group = self._register(consumer, client, has_subscriptions=_has_subscriptions(beat))
            if group is None:
                continue
            seen.append(group)
            if self._fingerprints.get(consumer.group, beat.fingerprint) != beat.fingerprint:
                is_changed = True
            self._note_fingerprint(consumer.group, beat.fingerprint)
        now = self._steady_ms()
        for producer in beat.producers:
            self._producers.register(producer.group, client, now)
        self._remember(connection, digest, client, beat, seen)
        return _heartbeat_answer(command, is_changed=is_changed)

    def unregister(self, command: Command, connection: Connection) -> Command:
        """It is the connection that leaves a group, whatever client id it names or does not."""
        fields = command.fields or {}
        producer_group, consumer_group = fields.get("producerGroup"), fields.get("consumerGroup")
        if producer_group is not None:
            self._producers.unregister(producer_group, connection)
        if consumer_group is not None:
            self._consumers.unregister(consumer_group, connection)
        return answer(command, fields={})

    def list_members(self, request: Request[GetConsumerListByGroup]) -> Command:
        name = request.header.consumer_group
        group = self._consumers.get(name)
        if group is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}", {}
            )
        body = encode_body(ConsumerIds(client_ids=group.client_ids()))
        return answer(request.command, fields={}, body=body)

    def check_client(self, command: Command, connection: Connection) -> Command:
        check = decode_body(ClientCheck, command.body) if command.body else ClientCheck()
        subscription = check.subscription
        if subscription is None or subscription.expression_type in ("", TAG_EXPRESSION):
            return answer(command)
        if not self._config().enable_property_filter:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                "The broker does not support consumer to filter message by "
                f"{subscription.expression_type}",
            )
        try:
            self._compile_filter(subscription.expression or "")
        except EmberqError as error:
            log.warning(
                "filter_refused client=%s group=%s expression=%r reason=%s",
                check.client_id,
                check.group,
                subscription.expression,
                error,
            )
            raise RequestRejected(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
        return answer(command)

    def _is_allowed(self, consumer: ConsumerPresence) -> bool:
        return not (
            self._config().reject_pull_consumer_enable
            and consumer.consume_type is ConsumeType.CONSUME_ACTIVELY
        )

    def _register(
        self, consumer: ConsumerPresence, client: Client, *, has_subscriptions: bool
    ) -> _GroupSeen | None:
        """Note a member of one group; None if there is no such group and may not be."""
        name = consumer.group
        config = self._groups.find(name)
        if config is None:
            return None
        subscriptions = [with_own_tag_codes(each) for each in consumer.subscriptions]
        if any(each.topic is None for each in subscriptions):
            raise ProtocolError(f"group {name} subscribes to a topic without a name")
        topic = self._retry_topic(consumer, config)
        manner = Manner(consumer.consume_type, consumer.message_model, consumer.consume_from_where)
        is_changed = self._consumers.register(
            name, client, manner, subscriptions if has_subscriptions else None, self._steady_ms()
        )
        if is_changed:
            log.info(
                "consumer_registered group=%s client=%s topics=%d",
                name,
                client.client_id,
                len(subscriptions),
            )
        if has_subscriptions:
            self._filters.register(name, subscriptions, self._now_ms())
        group = self._consumers.get(name)
        assert group is not None, "it was registered just now"
        return _GroupSeen(group, group.revision, group.members[client.connection], config, topic)

    def _retry_topic(self, consumer: ConsumerPresence, config: GroupConfig) -> str:
        """The name of the group's retry topic, which is made if it is not there; it is as ordered
        as the topics of the group."""
        configs = (self._topics.get(each.topic or "") for each in consumer.subscriptions)
        is_ordered = any(topic is not None and topic.is_ordered for topic in configs)
        known = self._topics.create_if_absent(
            retry_topic(consumer.group),
            config.retry_queue_count,
            system_flag=int(TopicFlag.UNIT_SUBSCRIPTION) if consumer.is_unit_mode else 0,
            is_ordered=is_ordered,
        )
        if known.is_ordered != is_ordered:
            self._topics.put(replace(known, is_ordered=is_ordered))
        return known.name

    def _note_fingerprint(self, group: str, fingerprint: int) -> None:
        self._fingerprints[group] = fingerprint
        if len(self._fingerprints) > FINGERPRINTS_MAX:
            del self._fingerprints[next(iter(self._fingerprints))]

    # A client beats every 30 seconds for all its life and mostly says the same.

    def _remember(
        self,
        connection: Connection,
        digest: bytes,
        client: Client,
        beat: Heartbeat,
        seen: list[_GroupSeen],
    ) -> None:
        self._presences.pop(connection, None)
        if connection.is_closed or len(seen) != len(beat.consumers):
            return  # groups that were left out may be there the next time
        producers = []
        for producer in beat.producers:
            member = self._producers.member(producer.group, connection)
            assert member is not None, "it was registered just now"
            producers.append((producer.group, member))
        self._presences[connection] = _Presence(digest, client, beat.fingerprint, seen, producers)

    def _is_repeated(self, presence: _Presence, digest: bytes, command: Command) -> bool:
        """Whether this heartbeat would change nothing: to read it again is the same as to touch
        its members, for nobody has changed their groups since."""
        client = presence.client
        return (
            presence.digest == digest
            and client.version == command.version
            and client.language == _language(command)
            and all(self._is_as_seen(seen, presence) for seen in presence.groups)
            and all(
                self._producers.member(group, client.connection) is member
                for group, member in presence.producers
            )
        )

    def _is_as_seen(self, seen: _GroupSeen, presence: _Presence) -> bool:
        group = seen.group
        return (
            group.revision == seen.revision
            and group.members.get(presence.client.connection) is seen.member
            and self._groups.get(group.name) is seen.config
            and self._topics.get(seen.retry_topic) is not None
            and self._fingerprints.get(group.name) == presence.fingerprint
        )

    def _touch(self, presence: _Presence) -> None:
        now = self._steady_ms()
        for seen in presence.groups:
            seen.member.seen_at_ms = now
        for _, member in presence.producers:
            member.seen_at_ms = now


def _has_subscriptions(beat: Heartbeat) -> bool:
    return beat.fingerprint == 0 or not beat.is_without_subscriptions


def _heartbeat_answer(command: Command, *, is_changed: bool) -> Command:
    fields = {
        "IS_SUPPORT_HEART_BEAT_V2": "true",
        "IS_SUB_CHANGE": "true" if is_changed else "false",
    }
    return answer(command, fields=fields)


def _language(command: Command) -> str:
    language = command.language
    return Language.name_of(language) if isinstance(language, int) else language or "OTHER"
