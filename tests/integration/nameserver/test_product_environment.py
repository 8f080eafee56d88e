"""Cluster-test mode: what this name server does not know, the product environment may."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from emberq.model.topic import TopicConfig
from emberq.nameserver.product_environment import ProductEnvironment
from emberq.protocol.codes import ResponseCode
from emberq.remoting.address_lookup import lookup_url
from emberq.testing.local_nameserver import Broker, connected, run_name_server
from tests.integration.nameserver.running import name_server, served

pytestmark = pytest.mark.integration

TOPICS = [TopicConfig(name="T1"), TopicConfig(name="T2")]

Publish = Callable[[bytes, int], str]


@pytest.fixture
def publish() -> Iterator[Publish]:
    """Publishes a text where clients look for name servers; returns the domain."""
    servers: list[HTTPServer] = []

    def start(content: bytes, status: int = 200) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_right = self.path == "/rocketmq/nsaddr-center?nofix=1"
                self.send_response(status if is_right else 404)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                return

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return f"127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


async def test_the_program_answers_with_the_routes_of_the_product_environment(
    tmp_path: Path,
) -> None:
    async with name_server(tmp_path) as product, connected(*product) as broker:
        await broker.register(Broker(), TOPICS)
        expected = await broker.route("T1")
        with run_name_server(
            tmp_path / "test",
            *("-n", f"nonsense,127.0.0.1:1;{product[0]}:{product[1]}"),
            config={"clusterTest": "true"},
        ) as local:
            async with connected(local.host, local.port) as client:
                await client.register(
                    Broker(name="near", address="10.0.0.1:1"),
                    [TopicConfig(name="N1"), TopicConfig(name="N2")],
                )

                assert (await client.route("N1")).code == 0
                assert (await client.route("T1")).body == expected.body
                assert (await client.route("nowhere")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_the_program_looks_the_addresses_up(tmp_path: Path, publish: Publish) -> None:
    async with name_server(tmp_path) as product, connected(*product) as broker:
        await broker.register(Broker(), TOPICS)
        domain = publish(f" {product[0]}:{product[1]} ;\nsecond line\n".encode(), 200)
        with run_name_server(
            tmp_path / "test",
            config={"clusterTest": "true"},
            environment={"ROCKETMQ_NAMESRV_DOMAIN": domain, "no_proxy": "*"},
        ) as local:
            async with connected(local.host, local.port) as client:
                assert (await client.route("T1")).code == 0


async def test_without_the_mode_nobody_is_asked(tmp_path: Path) -> None:
    async with served(tmp_path, clusterTest="false") as client:
        assert (await client.route("T1")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_new_connection_is_made_when_the_old_one_broke(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    async with name_server(second) as other, connected(*other) as broker:
        await broker.register(Broker(), TOPICS)
        async with name_server(first) as one:
            environment = ProductEnvironment([f"{host}:{port}" for host, port in (one, other)], "")
            assert await environment.route_body("T1") is None

        assert await environment.route_body("T1") is not None
        environment.close()


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"", 200), (b"nonsense", 200), (b"127.0.0.1:1", 200), (b"127.0.0.1:99999", 200), (b"", 500)],
)
async def test_addresses_that_lead_nowhere_mean_no_route(
    publish: Publish, content: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    url = lookup_url(publish(content, status), "nsaddr", "center")

    assert await ProductEnvironment([], url).route_body("T1") is None


async def test_a_look_up_that_is_no_http_means_no_route(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    async with name_server(tmp_path) as (host, port):
        url = lookup_url(f"{host}:{port}", "nsaddr", "center")

        assert await ProductEnvironment([], url).route_body("T1") is None
