"""The client against scripted servers: name servers, routes, heartbeats, calls, life."""

import asyncio

import pytest

from emberq.client.aio.client import Client
from emberq.client.credentials import Credentials
from emberq.client.settings import ClientSettings
from emberq.errors import (
    BrokerError,
    BrokerNotFound,
    ClientClosed,
    ClientError,
    ConfigError,
    ForkedClient,
    GroupNotFound,
    NoNameServer,
    TopicNotFound,
)
from emberq.model.queue import MessageQueue
from emberq.model.route import TopicRoute
from emberq.model.subscription import Subscription
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.heartbeat import ConsumerPresence, Heartbeat
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer, new_request
from emberq.protocol.headers.groups import GetConsumerListByGroup
from emberq.protocol.signature import is_signature_valid
from emberq.remoting.connection import Connection
from tests.integration.client.scripted import (
    Scripted,
    broker,
    client_and_broker,
    name_server,
    route_to,
    scripted_server,
)
from tests.support.waiting import until

pytestmark = pytest.mark.integration

UNUSED = "127.0.0.1:1"
PATIENT = ClientSettings(api_timeout=10.0, connect_timeout=5.0)


def questions_for(topic: str, server: Scripted) -> list[Command]:
    asked = server.of(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    return [request for request in asked if (request.fields or {})["topic"] == topic]


class Producer:
    async def check_transaction(self, request: Command, address: str) -> None:
        raise AssertionError("nobody asked")


class Consumer(Producer):
    def __init__(self) -> None:
        self.changes = 0

    def presence(self) -> ConsumerPresence:
        return ConsumerPresence(
            group="readers", subscriptions=[Subscription(topic="orders", expression="*")]
        )

    def met_again(self) -> None:
        self.changes += 1

    def share_out_soon(self) -> None:
        self.changes += 1

    async def reset_offsets(self, request: Command) -> None:
        raise AssertionError("nobody asked")

    def offsets_answer(self, request: Command) -> Command:
        return answer(request, body=b"offsets")

    async def running_answer(self, request: Command) -> Command:
        return answer(request, body=b"running")

    async def direct_answer(self, request: Command) -> Command:
        return answer(request, body=b"direct")


async def test_a_route_becomes_queues() -> None:
    async with (
        scripted_server(name_server({"orders": route_to("127.0.0.1:1", "127.0.0.1:2")})) as server,
        Client(server.address) as client,
    ):
        writable = await client.publish_queues("orders")
        readable = await client.subscribe_queues("orders")

    assert list(writable.queues) == readable
    assert readable[0] == MessageQueue("broker-0", 0, "orders")
    # The second question was answered by what is known.
    assert len(questions_for("orders", server)) == 1


async def test_a_topic_that_is_not_there_yet_is_where_its_template_is() -> None:
    routes = {"TBW102": route_to("127.0.0.1:1", queues=8)}
    async with scripted_server(name_server(routes)) as server, Client(server.address) as client:
        found = await client.publish_queues("new")

        assert {queue.topic for queue in found.queues} == {"new"}
        assert len(found.queues) == 4
        with pytest.raises(TopicNotFound, match="no name server knows the topic other"):
            await client.subscribe_queues("other")


async def test_whoever_names_no_template_does_not_take_its_route_for_the_topic() -> None:
    routes = {"TBW102": route_to("127.0.0.1:1", queues=8)}
    async with scripted_server(name_server(routes)) as server, Client(server.address) as client:
        await client.publish_queues("new")  # somebody else's, by the template

        with pytest.raises(TopicNotFound, match="no name server knows the topic new"):
            await client.publish_queues("new", template=None)
        routes["new"] = route_to("127.0.0.1:2", queues=3)
        found = await client.publish_queues("new", template=None)
        again = await client.publish_queues("new", template=None)

    assert len(found.queues) == len(again.queues) == 3
    assert len(questions_for("new", server)) == 3  # what is known was not asked for again


async def test_many_questions_for_one_topic_are_one_request() -> None:
    async with (
        scripted_server(name_server({"orders": route_to(UNUSED)})) as server,
        Client(server.address) as client,
    ):
        await asyncio.gather(*(client.subscribe_queues("orders") for _ in range(20)))

    assert len(questions_for("orders", server)) == 1


async def test_name_servers_that_are_gone_are_passed_over() -> None:
    async with scripted_server(name_server({"orders": route_to(UNUSED)})) as server:
        for _ in range(5):  # the list is shuffled
            async with Client([UNUSED, server.address], settings=PATIENT) as client:
                assert len(await client.subscribe_queues("orders")) == 2


async def test_without_any_name_server_the_error_says_what_was_tried() -> None:
    async with Client(UNUSED, settings=PATIENT) as client:
        with pytest.raises(NoNameServer, match="no name server can be reached: no connection to"):
            await client.subscribe_queues("orders")


async def test_a_brokers_port_in_place_of_a_name_servers_is_pointed_out() -> None:
    async with Client("127.0.0.1:10911", settings=PATIENT) as client:
        with pytest.raises(ClientError, match="looks like a broker"):
            await client.subscribe_queues("orders")


@pytest.mark.parametrize("text", ["localhost", "localhost:port", "localhost:9876;other"])
def test_what_is_no_address_is_refused_at_once(text: str) -> None:
    with pytest.raises(ConfigError, match="expected host:port"):
        Client(text)


async def test_a_broker_on_any_port_is_no_name_server() -> None:
    async with (
        scripted_server(broker()) as master,
        Client(master.address) as client,
    ):
        with pytest.raises(NoNameServer, match=r"not as a name server\. It is probably a broker"):
            await client.subscribe_queues("orders")
        assert not client.health().is_name_server_reachable


async def test_a_client_is_healthy_before_its_first_message() -> None:
    async with scripted_server(name_server({})) as server, Client(server.address) as client:
        await until(lambda: client.health().is_healthy)


async def test_a_client_whose_brokers_are_all_away_is_not_healthy() -> None:
    async with (
        scripted_server(name_server({"orders": route_to(UNUSED)})) as server,
        Client(server.address) as client,
    ):
        await client.subscribe_queues("orders")

        health = client.health()

    assert health.is_name_server_reachable
    assert health.unreachable == [UNUSED]
    assert not health.is_healthy


async def test_a_broker_that_was_away_is_greeted_at_once_and_the_group_shares_out() -> None:
    consumer = Consumer()
    async with client_and_broker(broker()) as (client, master):
        client.add_consumer("readers", consumer)
        await client.heartbeats.beat()

        client.connections.drop(master.address)
        await client.connections.call(
            master.address, new_request(RequestCode.UNREGISTER_CLIENT, {}), 3.0
        )

        await until(lambda: len(master.of(RequestCode.HEART_BEAT)) == 2)
        await until(lambda: consumer.changes == 1)


async def test_light_heartbeats_leave_subscriptions_out_until_something_changes() -> None:
    handlers = broker()
    fields = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"}
    handlers[RequestCode.HEART_BEAT] = lambda command, _: answer(command, fields=fields)
    settings = ClientSettings(is_heartbeat_v2=True)
    consumer = Consumer()
    async with client_and_broker(handlers, settings=settings) as (client, master):
        client.add_consumer("readers", consumer)
        await client.heartbeats.beat()
        await client.heartbeats.beat()
        await client.heartbeats.beat(is_whole=True)
        fields["IS_SUB_CHANGE"] = "true"
        await client.heartbeats.beat()
        await client.heartbeats.beat()
        del fields["IS_SUPPORT_HEART_BEAT_V2"]  # as brokers of 4.9 answer
        await client.heartbeats.beat()
        await client.heartbeats.beat()

    beats = [decode_body(Heartbeat, each.body) for each in master.of(RequestCode.HEART_BEAT)]
    light = [False, True, False, True, False, False, False]
    assert [beat.is_without_subscriptions for beat in beats] == light
    assert [not beat.consumers[0].subscriptions for beat in beats] == light
    assert len({beat.fingerprint for beat in beats}) == 1
    assert beats[0].fingerprint != 0


async def test_name_servers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted_server(name_server({"orders": route_to(UNUSED)})) as server:
        monkeypatch.setenv("NAMESRV_ADDR", server.address)
        async with Client() as client:
            assert client.name_servers.addresses == [server.address]


async def test_without_a_setting_name_servers_are_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.setenv("ROCKETMQ_NAMESRV_DOMAIN", UNUSED)
    client = Client()

    with pytest.raises(NoNameServer, match="none can be looked up"):
        await client.start()


async def test_heartbeats_tell_brokers_who_is_there() -> None:
    async with client_and_broker(broker()) as (client, master):
        await client.add_producer("writers", Producer())
        client.add_consumer("readers", Consumer())
        await client.heartbeats.beat()
        assert client.heartbeats.versions == {master.address: 513}
        assert client.health().is_healthy
        await client.remove_producer("writers")
        await client.remove_consumer("readers")

    first, second = (
        decode_body(Heartbeat, request.body) for request in master.of(RequestCode.HEART_BEAT)
    )
    assert [each.group for each in first.producers] == ["CLIENT_INNER_PRODUCER", "writers"]
    assert [each.group for each in second.consumers] == ["readers"]
    left = [request.fields or {} for request in master.of(RequestCode.UNREGISTER_CLIENT)]
    assert [fields.get("producerGroup") for fields in left] == ["writers", None]
    assert [fields.get("consumerGroup") for fields in left] == [None, "readers"]
    assert {fields["clientID"] for fields in left} == {client.client_id}


async def test_a_group_is_used_once_per_client() -> None:
    async with scripted_server(name_server({})) as server, Client(server.address) as client:
        await client.add_producer("writers", Producer())

        with pytest.raises(ClientError, match="has a producer of group writers already"):
            await client.add_producer("writers", Producer())


async def test_requests_of_brokers_reach_their_group() -> None:
    connected: list[Connection] = []
    handlers = broker()

    def keep(command: Command, connection: Connection) -> Command:
        connected.append(connection)
        return answer(command)

    handlers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = keep
    async with client_and_broker(handlers) as (client, _master):
        consumer = Consumer()
        client.add_consumer("readers", consumer)
        await client.call_broker("broker-0", GetConsumerListByGroup(consumer_group="x"))
        [connection] = connected

        async def ask(code: RequestCode, fields: dict[str, str]) -> Command:
            return await connection.call(Command(code=int(code), fields=fields), 5)

        running = await ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "readers"})
        direct = await ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "readers"})
        status = await ask(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"group": "readers"})
        unknown = await ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "others"})
        reply = await ask(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, {})
        notice = Command(code=int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED), fields={})
        connection.send_oneway(notice)
        await ask(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, {})

    assert [running.body, direct.body, status.body] == [b"running", b"direct", b"offsets"]
    assert (unknown.code, reply.code) == (ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS)
    assert consumer.changes == 1


async def test_a_failure_code_is_an_error_with_a_hint() -> None:
    handlers = broker()
    handlers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda command, _: answer(
        command, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "no group"
    )
    async with client_and_broker(handlers) as (client, _master):
        with pytest.raises(GroupNotFound, match="autoCreateSubscriptionGroup") as caught:
            await client.call_broker("broker-0", GetConsumerListByGroup(consumer_group="x"))
        with pytest.raises(BrokerNotFound, match="master of nobody"):
            await client.call_broker("nobody", GetConsumerListByGroup(consumer_group="x"))

    assert isinstance(caught.value, BrokerError)
    assert (caught.value.code, caught.value.remark) == (26, "no group")


async def test_a_server_that_goes_away_is_called_again_on_a_new_connection() -> None:
    peers: list[str] = []
    handlers = broker()

    def leave_once(command: Command, connection: Connection) -> Command:
        peers.append(connection.peer)
        return answer(command, ResponseCode.GO_AWAY if len(peers) == 1 else 0)

    handlers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = leave_once
    async with client_and_broker(handlers) as (client, _master):
        await client.call_broker("broker-0", GetConsumerListByGroup(consumer_group="x"))

    assert len(set(peers)) == 2


async def test_every_request_is_signed() -> None:
    async with (
        scripted_server(name_server({"orders": route_to(UNUSED)})) as server,
        Client(server.address, credentials=Credentials("rocketmq2", "12345678")) as client,
    ):
        await client.subscribe_queues("orders")

    [request] = server.requests
    fields = request.fields or {}
    assert fields["AccessKey"] == "rocketmq2"
    assert is_signature_valid(fields, request.body, "12345678")


async def test_names_are_wrapped_in_their_namespace() -> None:
    client = Client(UNUSED, namespace="ns")

    request = client.request(GetConsumerListByGroup(consumer_group=client.wrap("g")))

    assert request.fields == {"consumerGroup": "ns%g"}
    assert client.unwrap("ns%g") == "g"


async def test_the_vip_channel_is_two_ports_below() -> None:
    async with (
        scripted_server(name_server({"t": route_to("127.0.0.1:10911")})) as server,
        Client(server.address, is_vip_channel=True) as client,
    ):
        await client.subscribe_queues("t")

        assert await client.broker_address("broker-0", is_vip=True) == "127.0.0.1:10909"
        assert await client.broker_address("broker-0") == "127.0.0.1:10911"


async def test_routes_are_refreshed_in_time() -> None:
    routes: dict[str, TopicRoute] = {"orders": route_to(UNUSED)}
    changed = asyncio.Event()
    settings = ClientSettings(route_refresh=0.02)
    async with (
        scripted_server(name_server(routes)) as server,
        Client(server.address, settings=settings) as client,
    ):
        await client.subscribe_queues("orders")
        client.routes.on_change(lambda topic: changed.set())
        routes["orders"] = route_to(UNUSED, queues=4)
        async with asyncio.timeout(10):
            await changed.wait()

        assert len(await client.subscribe_queues("orders")) == 4


async def test_a_client_is_used_between_start_and_close() -> None:
    client = Client(UNUSED)
    with pytest.raises(ClientClosed, match="not running"):
        client.check_running()
    await client.start()
    await client.start()
    await client.close()
    await client.close()

    with pytest.raises(ClientClosed, match="closed"):
        await client.start()
    with pytest.raises(ClientClosed, match="closed"):
        await client.connections.send_oneway(UNUSED, Command())


async def test_a_forked_child_is_told_to_make_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Client(UNUSED) as client:
        monkeypatch.setattr(client._guard, "is_forked", True)
        with pytest.raises(ForkedClient, match="after the fork"):
            client.check_running()
        monkeypatch.undo()


def test_a_url_says_everything() -> None:
    client = Client.from_url("rocketmq://key:se%2Fcret@h1:9876,h2:9876/ns?tls=1")

    assert sorted(client.name_servers.addresses) == ["h1:9876", "h2:9876"]
    assert client.namespace == "ns"
    with pytest.raises(ConfigError, match="expected rocketmq://"):
        Client.from_url("http://h1:9876")
