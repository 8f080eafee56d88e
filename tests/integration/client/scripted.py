"""Name servers and brokers that answer what a test wants, in this process, on free ports."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from emberq.client.aio.client import Client
from emberq.client.metrics import Metrics
from emberq.client.settings import ClientSettings
from emberq.model.route import BrokerData, QueueData, TopicRoute
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.registry import AsyncHandler, HandlerRegistry, PlainHandler
from emberq.remoting.server import listening

Handlers = dict[RequestCode, PlainHandler | AsyncHandler]


class Scripted:
    """A server whose requests are kept."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.address = ""
        self.requests: list[Command] = []

    def of(self, code: RequestCode) -> list[Command]:
        return [request for request in self.requests if request.code == code]


@asynccontextmanager
async def scripted_server(handlers: Handlers) -> AsyncIterator[Scripted]:
    registry = HandlerRegistry()
    server = Scripted(Endpoint(registry))

    def kept(handler: Callable[[Command, Connection], object]) -> PlainHandler:
        def handle(command: Command, connection: Connection) -> Command | None:
            server.requests.append(command)
            result = handler(command, connection)
            assert result is None or isinstance(result, Command)
            return result

        return handle

    for code, handler in handlers.items():
        registry.add(code, kept(handler))
    async with listening(server.endpoint, "127.0.0.1", 0) as (host, port):
        server.address = f"{host}:{port}"
        yield server


def route_to(*addresses: str, queues: int = 2) -> TopicRoute:
    """A route over brokers `broker-0`, `broker-1` … at these addresses."""
    names = [f"broker-{number}" for number in range(len(addresses))]
    return TopicRoute(
        brokers=[
            BrokerData(addresses={0: address}, broker_name=name, cluster="c")
            for name, address in zip(names, addresses, strict=True)
        ],
        queues=[
            QueueData(
                broker_name=name, permission=6, read_queue_count=queues, write_queue_count=queues
            )
            for name in names
        ],
    )


def name_server(routes: dict[str, TopicRoute]) -> Handlers:
    """Answers with routes, which a test may change."""

    def route(command: Command, connection: Connection) -> Command:
        found = routes.get((command.fields or {})["topic"])
        if found is None:
            return answer(command, ResponseCode.TOPIC_NOT_EXIST, "no route")
        return answer(command, body=encode_body(found))

    return {RequestCode.GET_ROUTEINFO_BY_TOPIC: route}


def broker() -> Handlers:
    """Takes heartbeats and farewells."""

    def fine(command: Command, connection: Connection) -> Command:
        return answer(command, fields={})

    return {RequestCode.HEART_BEAT: fine, RequestCode.UNREGISTER_CLIENT: fine}


@asynccontextmanager
async def client_and_broker(
    handlers: Handlers,
    topic: str = "orders",
    *,
    settings: ClientSettings | None = None,
    metrics: Metrics | None = None,
) -> AsyncIterator[tuple[Client, Scripted]]:
    """A client that knows a topic on one broker."""
    async with (
        scripted_server(handlers) as master,
        scripted_server(name_server({topic: route_to(master.address)})) as server,
        Client(server.address, settings=settings, metrics=metrics) as client,
    ):
        await client.subscribe_queues(topic)
        yield client, master
