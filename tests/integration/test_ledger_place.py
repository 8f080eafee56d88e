"""Where the Spark sink has its ledger: name servers and brokers that answer what a test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing

import pytest

from emberq.errors import BrokerNotFound, ClientError, NoNameServer
from emberq.model.queue import MessageQueue
from emberq.model.route import BrokerData, QueueData, TopicRoute
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.routes import ClusterTable
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from emberq.spark.ledger_place import LEDGER_TOPIC, PIN_NAMESPACE, LedgerPlace
from emberq.spark.links import Link
from emberq.spark.options import ConnectionOptions
from emberq.spark.row_sending import producer_of
from emberq.spark.sink_options import SinkOptions, parse_sink
from tests.integration.client.scripted import Handlers, Scripted, broker, scripted_server

pytestmark = pytest.mark.integration

CLUSTERS = {"north": ["broker-a", "broker-b"], "south": ["broker-c"]}


class Scene:
    """Brokers, their topics and those that are away; name servers with their tables."""

    def __init__(self, name_servers: int = 1) -> None:
        self.topics: dict[str, list[str]] = {}  # topic → brokers, away or not
        self.offsets: dict[str, int] = {}  # of the ledger, by broker
        self.away: set[str] = set()
        self.pins: list[dict[str, str]] = [{} for _ in range(name_servers)]
        self.keeps_values = True
        self.made: list[str] = []
        self.on_put: Callable[[], None] = lambda: None
        self.addresses: dict[str, str] = {}
        self.name_servers: list[Scripted] = []

    @property
    def name_server(self) -> str:
        return ";".join(server.address for server in self.name_servers)

    def _broker(self, name: str) -> Handlers:
        def make(command: Command, connection: Connection) -> Command:
            topic = (command.fields or {})["topic"]
            self.made.append(name)
            self.topics.setdefault(topic, []).append(name)
            return answer(command)

        def max_offset(command: Command, connection: Connection) -> Command:
            return answer(command, fields={"offset": str(self.offsets.get(name, 0))})

        return {
            **broker(),
            RequestCode.UPDATE_AND_CREATE_TOPIC: make,
            RequestCode.GET_MAX_OFFSET: max_offset,
        }

    def _present(self, names: list[str]) -> list[str]:
        return [name for name in names if name not in self.away]

    def _data(self, name: str) -> BrokerData:
        [cluster] = [each for each, names in CLUSTERS.items() if name in names]
        return BrokerData(addresses={0: self.addresses[name]}, broker_name=name, cluster=cluster)

    def _name_server(self, pins: dict[str, str]) -> Handlers:
        def route(command: Command, connection: Connection) -> Command:
            names = self._present(self.topics.get((command.fields or {})["topic"], []))
            if not names:
                return answer(command, ResponseCode.TOPIC_NOT_EXIST, "no route")
            queues = [
                QueueData(broker_name=name, permission=6, read_queue_count=2, write_queue_count=2)
                for name in names
            ]
            found = TopicRoute(brokers=[self._data(name) for name in names], queues=queues)
            return answer(command, body=encode_body(found))

        def cluster_table(command: Command, connection: Connection) -> Command:
            clusters = {name: self._present(names) for name, names in CLUSTERS.items()}
            brokers = {name: self._data(name) for names in clusters.values() for name in names}
            return answer(
                command, body=encode_body(ClusterTable(brokers=brokers, clusters=clusters))
            )

        def get(command: Command, connection: Connection) -> Command:
            if not self.keeps_values:
                return answer(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "what?")
            fields = command.fields or {}
            assert (fields["namespace"], fields["key"]) == (PIN_NAMESPACE, LEDGER_TOPIC)
            if "value" not in pins:
                return answer(command, ResponseCode.QUERY_NOT_FOUND, "No config item", {})
            return answer(command, fields=pins)

        def put(command: Command, connection: Connection) -> Command:
            if not self.keeps_values:
                return answer(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "what?")
            pins["value"] = (command.fields or {})["value"]
            self.on_put()
            return answer(command)

        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: route,
            RequestCode.GET_BROKER_CLUSTER_INFO: cluster_table,
            RequestCode.GET_KV_CONFIG: get,
            RequestCode.PUT_KV_CONFIG: put,
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Scene"]:
        async with AsyncExitStack() as stack:
            for name in (name for names in CLUSTERS.values() for name in names):
                server = await stack.enter_async_context(scripted_server(self._broker(name)))
                self.addresses[name] = server.address
            for pins in self.pins:
                handlers = self._name_server(pins)
                self.name_servers.append(await stack.enter_async_context(scripted_server(handlers)))
            yield self

    def pinned(self, *brokers: str) -> None:
        for pins, name in zip(self.pins, brokers, strict=True):
            pins["value"] = name

    async def find(
        self, *, is_new_writer: bool = False, silent: str = "", **options: str
    ) -> MessageQueue:
        """As a process does that begins to write."""
        given = {"nameServer": self.name_server + silent, "delivery": "transactional", **options}
        return await asyncio.to_thread(self._find, parse_sink(given), is_new_writer)

    def _find(self, options: SinkOptions, is_new_writer: bool) -> MessageQueue:
        name_server = options.connection.name_server
        with closing(Link(ConnectionOptions(name_server=name_server))) as link:

            async def find() -> MessageQueue:
                producer = await producer_of(link, options.producer_group)
                place = LedgerPlace(link, producer, options)
                return await place.find(is_new_writer=is_new_writer)

            return link.run(find, 0)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with Scene().running() as running:
        yield running


def on(broker_name: str) -> MessageQueue:
    return MessageQueue(broker_name, 0, LEDGER_TOPIC)


# The first write


async def test_first_writers_of_any_topic_of_a_cluster_make_one_ledger_and_write_down_where(
    scene: Scene,
) -> None:
    scene.topics = {"one": ["broker-a"], "two": ["broker-b"]}

    found = await scene.find(is_new_writer=True, topic="two")

    assert found == on("broker-a")
    assert scene.made == ["broker-a"]
    assert scene.pins == [{"value": "broker-a"}]


async def test_it_is_made_in_the_cluster_of_the_topic(scene: Scene) -> None:
    scene.topics = {"orders": ["broker-c"]}

    assert await scene.find(is_new_writer=True, topic="orders") == on("broker-c")


async def test_rows_that_name_their_topics_themselves_need_none_to_make_it(scene: Scene) -> None:
    """Not even that of automatic creation, which many clusters do not have."""
    assert await scene.find(is_new_writer=True) == on("broker-a")


async def test_it_is_written_down_before_it_is_made(scene: Scene) -> None:
    scene.on_put = lambda: scene.made.append("pinned")

    await scene.find(is_new_writer=True)

    assert scene.made == ["pinned", "broker-a"]


async def test_of_two_that_write_it_down_at_once_the_later_counts_for_both(scene: Scene) -> None:
    scene.on_put = lambda: scene.pinned("broker-b")

    assert await scene.find(is_new_writer=True) == on("broker-b")
    assert scene.made == ["broker-b"]


async def test_none_is_made_while_a_name_server_is_silent_that_may_know_of_one(
    scene: Scene,
) -> None:
    with pytest.raises(NoNameServer, match="may know which broker"):
        await scene.find(is_new_writer=True, silent=";127.0.0.1:1")

    assert scene.made == []


async def test_none_is_made_while_a_broker_is_away_that_was_named(scene: Scene) -> None:
    with pytest.raises(BrokerNotFound, match="broker-z is away"):
        await scene.find(is_new_writer=True, brokers="broker-a,broker-z")

    assert scene.made == []


async def test_a_query_that_was_there_before_is_told_what_to_do(scene: Scene) -> None:
    with pytest.raises(BrokerNotFound, match=f"make the topic {LEDGER_TOPIC}"):
        await scene.find()
    scene.topics[LEDGER_TOPIC] = ["broker-b"]  # by hand

    assert await scene.find() == on("broker-b")
    assert scene.pins == [{"value": "broker-b"}]


# A ledger that is there


async def test_while_its_broker_is_away_nobody_makes_another(scene: Scene) -> None:
    scene.topics = {LEDGER_TOPIC: ["broker-a"], "orders": ["broker-b"]}
    await scene.find()
    scene.away = {"broker-a"}

    for is_new_writer in (True, False):
        with pytest.raises(BrokerNotFound, match=r"broker-a has .* and is away"):
            await scene.find(is_new_writer=is_new_writer, topic="orders")

    assert scene.made == []


async def test_the_one_that_is_written_down_counts_whatever_else_there_is(scene: Scene) -> None:
    scene.topics = {LEDGER_TOPIC: ["broker-a", "broker-b"]}
    scene.offsets = {"broker-a": 5, "broker-b": 5}
    scene.pinned("broker-b")

    assert await scene.find() == on("broker-b")
    scene.away = {"broker-b"}
    with pytest.raises(BrokerNotFound, match="broker-b has"):
        await scene.find(is_new_writer=True)


@pytest.mark.parametrize(("offsets", "chosen"), [({}, "broker-a"), ({"broker-b": 1}, "broker-b")])
async def test_of_several_that_were_made_by_hand_the_one_in_use_counts(
    scene: Scene, offsets: Mapping[str, int], chosen: str
) -> None:
    scene.topics = {LEDGER_TOPIC: ["broker-b", "broker-a"]}
    scene.offsets = dict(offsets)

    assert await scene.find() == on(chosen)
    assert scene.pins == [{"value": chosen}]


async def test_two_that_are_in_use_are_told(scene: Scene) -> None:
    scene.topics = {LEDGER_TOPIC: ["broker-a", "broker-b"]}
    scene.offsets = {"broker-a": 5, "broker-b": 5}

    with pytest.raises(ClientError, match=r"on broker-a, broker-b.*mqadmin updateKvConfig"):
        await scene.find(is_new_writer=True)


async def test_a_ledger_that_was_deleted_is_made_again_for_new_writers_only(scene: Scene) -> None:
    scene.pinned("broker-b")

    with pytest.raises(BrokerNotFound, match=r"broker-b has .* no more"):
        await scene.find()

    assert await scene.find(is_new_writer=True) == on("broker-b")
    assert scene.made == ["broker-b"]


# Several name servers


async def test_what_one_name_server_knows_is_told_to_the_others() -> None:
    async with Scene(name_servers=2).running() as scene:
        scene.topics = {LEDGER_TOPIC: ["broker-a", "broker-b"]}
        scene.pins[1]["value"] = "broker-b"

        assert await scene.find() == on("broker-b")

        assert scene.pins == [{"value": "broker-b"}] * 2


async def test_name_servers_that_contradict_each_other_are_told() -> None:
    async with Scene(name_servers=2).running() as scene:
        scene.topics = {LEDGER_TOPIC: ["broker-a", "broker-b"]}
        scene.pinned("broker-a", "broker-b")

        with pytest.raises(ClientError, match="do not agree"):
            await scene.find()


async def test_name_servers_that_keep_no_values_are_no_hindrance(scene: Scene) -> None:
    scene.keeps_values = False

    assert await scene.find(is_new_writer=True) == on("broker-a")
    assert await scene.find() == on("broker-a")
    assert scene.made == ["broker-a"]
