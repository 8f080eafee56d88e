"""`make demo`: what EmberQ can do today, shown by real processes in a temporary folder."""

import asyncio
import tempfile
import time
from pathlib import Path

import click

from emberq.errors import EmberqError
from emberq.model.route import TopicRoute
from emberq.model.topic import TopicConfig
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.remoting.event_loop import run
from emberq.testing.local_nameserver import (
    Broker,
    LocalNameServer,
    RawClient,
    connected,
    run_name_server,
)

STEPS = 6
DEADLINE_S = 10.0
ORDERS = TopicConfig(name="orders", read_queue_count=8, write_queue_count=8)
PAYMENTS = TopicConfig(name="payments", read_queue_count=4, write_queue_count=4)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="emberq-demo-") as folder:
        began = time.perf_counter()
        with (
            run_name_server(Path(folder, "one")) as one,
            run_name_server(Path(folder, "two")) as two,
        ):
            took = time.perf_counter() - began
            _say(1, f"two name servers run at {one.address} and {two.address} ({took:.2f} s)")
            run(_journey(one, two, Path(folder)))
    click.echo("\nThat is the name server; broker, client and Spark pipelines come next.")


async def _journey(one: LocalNameServer, two: LocalNameServer, folder: Path) -> None:
    broker = Broker(name="broker-a", address="127.0.0.1:10911", cluster="DemoCluster")
    async with connected(two.host, two.port) as admin:
        async with (
            connected(one.host, one.port) as broker_at_one,
            connected(two.host, two.port) as broker_at_two,
        ):
            for connection in (broker_at_one, broker_at_two):
                await connection.register(broker, [ORDERS, PAYMENTS])
            _say(2, "a broker registered its topics orders and payments with both")

            route = decode_body(TopicRoute, (await admin.route("orders")).body)
            queues, addresses = route.queues[0], route.brokers[0].addresses
            _say(
                3,
                f"a client asked for orders: {queues.write_queue_count} queues on "
                f"{queues.broker_name} at {addresses[0]}",
            )

            entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "broker-a:8"}
            await broker_at_one.call(RequestCode.PUT_KV_CONFIG, entry)
            one.kill()
            _check(await _has_route(admin), "the second name server lost the route")
            _say(4, "the first name server was killed; the second still answers")

            with run_name_server(folder / "one") as again:
                async with connected(again.host, again.port) as reader:
                    kept = await reader.call(RequestCode.GET_KV_CONFIG, entry)
                    _check(kept.code == ResponseCode.SUCCESS, "the key-value table was lost")
                    value = (kept.fields or {})["value"]
                    _say(5, f"restarted, it kept its key-value table: orders={value}")
        # The broker's connections are closed now: it is gone.
        deadline = time.monotonic() + DEADLINE_S
        while await _has_route(admin):
            _check(time.monotonic() < deadline, "the broker hung up, but its route stayed")
            await asyncio.sleep(0.01)
        _say(6, "the broker hung up, and its topics left the routes")


async def _has_route(client: RawClient) -> bool:
    return (await client.route("orders")).code == ResponseCode.SUCCESS


def _check(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise EmberqError(otherwise)


def _say(step: int, text: str) -> None:
    click.echo(f"[{step}/{STEPS}] {text}")


if __name__ == "__main__":
    main()
