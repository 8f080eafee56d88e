"""`make demo`: what EmberQ can do today, shown by real processes in a temporary folder."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from emberq.errors import EmberqError
from emberq.model.route import TopicRoute
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.remoting.event_loop import run
from emberq.testing.first_message import SentMessage, pull_one, send
from emberq.testing.local_broker import LocalBroker, run_broker
from emberq.testing.local_nameserver import (
    LocalNameServer,
    RawClient,
    connected,
    run_name_server,
)

STEPS = 8
DEADLINE_S = 10.0
TOPIC = "orders"
MESSAGE_COUNT = 100


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="emberq-demo-") as folder:
        began = time.perf_counter()
        home = Path(folder)
        with run_name_server(home / "one") as one, run_name_server(home / "two") as two:
            with run_broker(home / "broker", name_servers=f"{one.address};{two.address}") as broker:
                took = time.perf_counter() - began
                _say(
                    1,
                    f"two name servers at {one.address} and {two.address}, "
                    f"a broker at {broker.address} ({took:.2f} s)",
                )
                sent = run(_before_the_crash(one, two, broker))
                broker.kill()
                _say(6, "the broker was killed in the middle of its life")
            began = time.perf_counter()
            with run_broker(home / "broker", name_servers=two.address) as again:
                took = time.perf_counter() - began
                run(_after_the_crash(again, sent, took))
                _check(again.stop() == 0, "the broker did not stop cleanly")
            run(_until_gone(two))
    click.echo(
        "\nThat is the server side. The client: examples/first_steps.py. Spark pipelines come next."
    )


async def _before_the_crash(
    one: LocalNameServer, two: LocalNameServer, broker: LocalBroker
) -> list[SentMessage]:
    async with (
        connected(two.host, two.port) as names,
        connected(broker.host, broker.port) as client,
    ):
        began = time.perf_counter()
        sent = [
            await send(client, TOPIC, f"order {number}".encode(), queue_id=number % 4)
            for number in range(MESSAGE_COUNT)
        ]
        took_ms = (time.perf_counter() - began) * 1000 / MESSAGE_COUNT
        _say(
            2,
            f"{MESSAGE_COUNT} messages sent to a topic that nobody had created, one after the "
            f"other: {took_ms:.2f} ms each",
        )

        await _until(lambda: _has_route(names), "the new topic has no route")
        queues = decode_body(TopicRoute, (await names.route(TOPIC)).body).queues[0]
        _say(3, f"clients find it: {queues.write_queue_count} queues on {queues.broker_name}")

        await _read_back(client, sent)
        _say(4, f"all {MESSAGE_COUNT} read back from where they were put")

        entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": TOPIC, "value": "broker-a:4"}
        await names.call(RequestCode.PUT_KV_CONFIG, entry)
        one.kill()
        _check(await _has_route(names), "the second name server lost the route")
        _say(5, "the first name server was killed; the second still answers")
        return sent


async def _after_the_crash(broker: LocalBroker, sent: list[SentMessage], took: float) -> None:
    async with connected(broker.host, broker.port) as client:
        await _read_back(client, sent)
        _say(7, f"restarted in {took:.2f} s, it has every message that it had acknowledged")


async def _until_gone(names: LocalNameServer) -> None:
    async with connected(names.host, names.port) as client:

        async def is_gone() -> bool:
            return not await _has_route(client)

        await _until(is_gone, "the broker left, but its route stayed")
        _say(8, "stopped cleanly, it left the routes")


async def _read_back(client: RawClient, sent: list[SentMessage]) -> None:
    for number, message in enumerate(sent):
        record = await pull_one(client, message)
        _check(bytes(record.body) == f"order {number}".encode(), f"order {number} is not there")


async def _has_route(client: RawClient) -> bool:
    return (await client.route(TOPIC)).code == ResponseCode.SUCCESS


async def _until(is_so: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not await is_so():
        _check(time.monotonic() < deadline, otherwise)
        await asyncio.sleep(0.01)


def _check(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise EmberqError(otherwise)


def _say(step: int, text: str) -> None:
    click.echo(f"[{step}/{STEPS}] {text}")


if __name__ == "__main__":
    main()
