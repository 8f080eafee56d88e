"""The handlers that read messages, on a real store and without a network."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from emberq.broker.cold_reads import ColdReads
from emberq.broker.config import BrokerConfig
from emberq.broker.filters.choice import FilterChoice
from emberq.broker.filters.group_filters import GroupFilters
from emberq.broker.groups import Groups
from emberq.broker.handlers.offsets import OffsetHandlers
from emberq.broker.handlers.pull import PullHandlers
from emberq.broker.handlers.queries import QueryHandlers
from emberq.broker.held_pulls import HeldPulls
from emberq.broker.long_polling import LongPolling
from emberq.broker.members import Client, Consumers, Manner
from emberq.broker.offsets import ConsumerOffsets
from emberq.broker.pull_request import MAY_SUSPEND
from emberq.broker.pull_terms import PullChecks
from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.topics import Topics
from emberq.errors import RequestRejected
from emberq.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, Subscription
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer, new_request
from emberq.protocol.frame import parse_frame
from emberq.record.decode import iter_records
from emberq.record.properties import encode_properties
from emberq.record.record import Record
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer, HandlerRegistry
from emberq.store.message_store import MessageStore
from tests.support.stores import HOST, TOPIC, Clock, opened

GROUP = "readers"


class Peer:
    """As much of a connection as handlers look at."""

    peer = "192.0.2.7:40000"

    def __init__(self) -> None:
        self.requests_in_flight = 0
        self.is_closed = False
        self.answered: list[Command] = []

    def answer(self, request: Command, result: Answer) -> None:
        self.answer_with(request, lambda: result)

    def answer_with(self, request: Command, make: Callable[[], Answer]) -> None:
        result = answer_of(request, make)
        if result is not None:
            self.answered.append(result)


def answer_of(command: Command, make: Callable[[], Answer]) -> Command | None:
    """As the dispatcher does: refusals and frames become commands."""
    try:
        result = make()
    except RequestRejected as error:
        return answer(command, error.code, error.remark, error.fields)
    if isinstance(result, list):
        result = b"".join(result)
    return parse_frame(result) if isinstance(result, bytes) else result


class Pulling:
    """A broker's reading half."""

    def __init__(self, store: MessageStore, clock: Clock, config: BrokerConfig) -> None:
        self.store = store
        self.clock = clock
        self.config = config
        self.topics = Topics(config, now_ms=clock)
        self.topics.create_if_absent(TOPIC, 4)
        self.groups = Groups(
            is_auto_created=lambda: self.config.auto_create_subscription_group, now_ms=clock
        )
        self.consumers = Consumers()
        self.filters = GroupFilters()
        self.offsets = ConsumerOffsets(clock)
        self.held = HeldPulls()
        self.cold_reads = ColdReads()
        self.statistics = BrokerStatistics("C1", is_system_topic=self.topics.is_system)
        self.peer = Peer()
        self.registry = HandlerRegistry()
        self.handlers = PullHandlers(
            store=store,
            checks=PullChecks(
                topics=self.topics,
                groups=self.groups,
                choice=FilterChoice(
                    consumers=self.consumers,
                    groups=self.groups,
                    filters=self.filters,
                    config=lambda: self.config,
                    now_ms=clock,
                ),
                config=lambda: self.config,
                broker_ip="10.1.2.3",
            ),
            offsets=self.offsets,
            held=self.held,
            cold_reads=self.cold_reads,
            statistics=self.statistics,
            config=lambda: self.config,
            steady_ms=clock,
        )
        self.handlers.add_to(self.registry)
        OffsetHandlers(
            store=store,
            topics=self.topics,
            groups=self.groups,
            offsets=self.offsets,
            config=lambda: self.config,
        ).add_to(self.registry)
        QueryHandlers(
            store=store,
            consumers=self.consumers,
            filters=self.filters,
            config=lambda: self.config,
        ).add_to(self.registry)
        self.polling = LongPolling(
            self.held,
            self.handlers.replay,
            max_offset=store.max_offset,
            config=lambda: self.config,
            steady_ms=clock,
            write_answers=lambda: None,
        )
        store.dispatcher.on_queue_grown(self.polling.queue_grown)
        store.dispatcher.on_queues_told(self.polling.run_woken)

    def set(self, **changes: Any) -> None:
        self.config = replace(self.config, **changes)

    def serve(self, command: Command) -> Command | None:
        entry = self.registry.get(command.code)
        assert entry is not None
        connection = cast(Connection, self.peer)
        return answer_of(command, lambda: entry.handle(command, connection))

    def request(self, code: RequestCode = RequestCode.PULL_MESSAGE, **fields: str) -> Command:
        defaults = {
            "consumerGroup": GROUP,
            "topic": TOPIC,
            "queueId": "0",
            "queueOffset": "0",
            "maxMsgNums": "32",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "15000",
            "subVersion": "0",
            "subscription": "*",
        }
        return new_request(code, {**defaults, **fields})

    def pull(self, code: RequestCode = RequestCode.PULL_MESSAGE, **fields: str) -> Command:
        """The answer to a pull that is answered at once."""
        response = self.serve(self.request(code, **fields))
        assert response is not None
        return response

    def hold(self, **fields: str) -> None:
        """A pull that waits."""
        fields.setdefault("sysFlag", str(4 | MAY_SUSPEND))
        assert self.serve(self.request(RequestCode.PULL_MESSAGE, **fields)) is None
        assert len(self.held) > 0

    def join(
        self,
        *subscriptions: Subscription,
        group: str = GROUP,
        model: MessageModel = MessageModel.CLUSTERING,
    ) -> None:
        """A member with these subscriptions is there."""
        client = Client("connection", "c1", "JAVA", 513)
        manner = Manner(
            ConsumeType.CONSUME_PASSIVELY, model, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        )
        self.consumers.register(group, client, manner, subscriptions, 1)
        self.filters.register(group, subscriptions, 1)


@contextmanager
def pulling_in(folder: Path, **config: Any) -> Iterator[Pulling]:
    clock = Clock()
    with opened(folder, clock=clock) as store:
        bench = Pulling(store, clock, BrokerConfig(broker_name="broker-a", **config))
        try:
            yield bench
        finally:
            bench.cold_reads.close()


def put_with(
    store: MessageStore, body: bytes, properties: dict[str, str], topic: str = TOPIC
) -> None:
    """A message with these properties."""
    store.put(topic, 0, body, encode_properties(properties), born_host=HOST)


def field(response: Command, name: str) -> int:
    return int((response.fields or {})[name])


def records_of(response: Command) -> list[Record]:
    return list(iter_records(response.body))


def bodies_of(response: Command) -> list[bytes]:
    return [bytes(record.body) for record in records_of(response)]
