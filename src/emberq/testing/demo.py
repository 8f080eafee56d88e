"""`make demo`: the whole journey, produce → broker → Spark → Parquet, by real processes."""

import asyncio
import itertools
import json
import math
import random
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emberq.aio import Message, Producer, PushConsumer, ReceivedMessage, RetryLater
from emberq.cli.failures import sentence
from emberq.cli.spark import echo_report
from emberq.errors import EmberqError
from emberq.pipelines.archive import Archive
from emberq.pipelines.archived import read_archive
from emberq.pipelines.dead_letters import DeadLetters
from emberq.pipelines.job import SparkSettings
from emberq.pipelines.session import job_session
from emberq.pipelines.stats import Stats
from emberq.pipelines.transform import Transform
from emberq.pipelines.verify import Verify
from emberq.remoting.event_loop import run
from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import run_name_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 9
MARK = ".emberq-demo"  # of folders that a demo may delete
ORDERS = 20_000
BAD_EVERY = 400
# The shop's day in eight seconds, so that charts have something to show.
DAY_S = 8.0
DAY_PIECES = 40
TOPIC, LARGE_TOPIC, GROUP = "orders", "large-orders", "billing"
DEAD_TOPIC = f"%DLQ%{GROUP}"
DEADLINE_S = 60.0
SEED = 7
STATES = ("created", "paid", "shipped", "cancelled")
# Retries after a second each, so that dead letters are dead within the demo.
BROKER_KEYS = {"messageDelayLevel": "1s 1s 1s 1s 1s", "brokerIP1": "127.0.0.1"}
SPARK_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}
LARGE_SQL = f"""
SELECT get_json_object(body, '$.customer') AS shardingKey, keys, tags,
       to_json(named_struct('order', keys, 'amount', double(get_json_object(body, '$.amount'))))
         AS body
FROM {TOPIC}
WHERE try_cast(get_json_object(body, '$.amount') AS DOUBLE) >= 900
"""


def main(arguments: Sequence[str]) -> None:
    began = time.monotonic()
    home = new_home(Path(arguments[0] if arguments else "demo-output").absolute())
    with run_name_server(home / "name-server") as names:
        keys = {"name_servers": names.address, "config": BROKER_KEYS}
        with run_broker(home / "broker", **keys) as broker:  # type: ignore[arg-type] # both are named
            _say(1, f"a name server at {names.address}, a broker at {broker.address}")
            run(_produce(names.address))
            broker.kill()
        started = time.monotonic()
        with run_broker(home / "broker", **keys) as broker:  # type: ignore[arg-type]
            took = time.monotonic() - started
            _say(3, f"the broker was killed (SIGKILL) and is back after {took:.2f} s")
            run(_consume(names.address))
            _on_spark(names.address, home)
    click.echo(
        f"\nEverything is in {home}: the Parquet files in lake/, report.html for your browser.\n"
        f"The whole demo took {time.monotonic() - began:.0f} s."
    )


def new_home(home: Path) -> Path:
    """An empty folder for a demo; what an earlier demo left there is gone.

    Raises:
        EmberqError: something else is there.
    """
    if (home / MARK).is_file():
        shutil.rmtree(home)
    elif home.exists() and not (home.is_dir() and not any(home.iterdir())):
        raise EmberqError(
            f"{home} is not of an earlier demo, and is kept: name a new folder (make demo ARGS=…)"
        )
    home.mkdir(parents=True, exist_ok=True)
    (home / MARK).touch()
    return home


async def _produce(name_server: str) -> None:
    """Orders in four states, as they come in a day; now and then one that nobody can read."""
    chance = random.Random(SEED)
    async with Producer("shop", name_server=name_server, linger=0.005) as producer:
        await producer.create_topic(TOPIC, queues=4)
        await producer.create_topic(LARGE_TOPIC, queues=4)
        started, first = time.monotonic(), 0
        for piece, end in enumerate(orders_by_pieces()):
            await asyncio.sleep(started + piece * DAY_S / DAY_PIECES - time.monotonic())
            await asyncio.gather(
                *(producer.send(_order(number, chance)) for number in range(first, end))
            )
            first = end
    took = time.monotonic() - started
    _say(2, f"{ORDERS:,} orders of a day sent in {took:.0f} s, every one acknowledged")


def orders_by_pieces() -> list[int]:
    """How many orders there are by the end of each piece: few at night, most at noon."""
    rates = [
        1.1 - math.cos(2 * math.pi * (piece + 0.5) / DAY_PIECES) for piece in range(DAY_PIECES)
    ]
    return [round(ORDERS * done / sum(rates)) for done in itertools.accumulate(rates)]


def _order(number: int, chance: random.Random) -> Message:
    body: bytes
    if number % BAD_EVERY == BAD_EVERY - 1:
        body = b"\xff\xfenot an order"
    else:
        order = {
            "order": f"o-{number}",
            "customer": f"c-{chance.randrange(500)}",
            "amount": round(chance.lognormvariate(4, 1.2), 2),
        }
        body = json.dumps(order).encode()
    return Message(TOPIC, body, tags=chance.choice(STATES), keys=f"o-{number}")


async def _consume(name_server: str) -> None:
    """A consumer that cannot bill what it cannot read: retried, then put aside."""
    billed = failed = 0
    expected_bad = ORDERS // BAD_EVERY
    consumer = PushConsumer(
        GROUP,
        name_server=name_server,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        max_reconsume_times=1,
    )

    @consumer.subscribe(TOPIC)
    async def bill(message: ReceivedMessage) -> None:
        nonlocal billed, failed
        try:
            json.loads(message.body)
        except ValueError as error:
            failed += 1
            raise RetryLater("not an order") from error
        billed += 1

    async with consumer:
        await _until(
            lambda: billed >= ORDERS - expected_bad and failed >= 2 * expected_bad,
            "the consumer did not get all orders",
        )
    _say(
        4,
        f"{billed:,} orders billed by the group {GROUP}; {expected_bad} could not be read, were "
        "tried twice and are dead letters now",
    )


async def _until(is_so: Any, otherwise: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise EmberqError(otherwise)
        await asyncio.sleep(0.05)


def _on_spark(name_server: str, home: Path) -> None:
    click.echo("      starting Spark …")
    settings = SparkSettings(master="local[2]", conf=SPARK_CONF)
    with job_session(settings) as session:
        transformed = Transform(
            topics=TOPIC,
            sql=LARGE_SQL,
            to_topic=LARGE_TOPIC,
            checkpoint=str(home / "checkpoints" / "large-orders"),
            name_server=name_server,
        ).run(session)
        _say(
            5,
            f"transform: {transformed.facts['messages read']:,} messages through SQL into "
            f"{LARGE_TOPIC}",
        )
        topics = ",".join((TOPIC, LARGE_TOPIC, DEAD_TOPIC))
        lake = str(home / "lake")
        archived = Archive(topics=topics, path=lake, name_server=name_server).run(session)
        _say(
            6,
            f"archive: {archived.facts['messages']:,} messages of three topics in "
            f"{archived.facts['files']} Parquet files",
        )
        page = home / "report.html"
        statistics = Stats(
            topics=f"{TOPIC},{LARGE_TOPIC}",
            window="1s",
            report=str(page),
            name_server=name_server,
        ).run(session)
        _say(7, f"statistics: {page}")
        statistics.tables = statistics.tables[1:]
        echo_report(statistics)
        letters = DeadLetters(groups=GROUP, name_server=name_server).run(session)
        letters.tables = letters.tables[:1]
        _say(8, "dead letters")
        echo_report(letters)
        _show_lake(session, lake)
        verified = Verify(topics=topics, path=lake, bodies=True, name_server=name_server).run(
            session
        )
        _say(9, f"verify: {verified.facts['verdict']}, body by body")
        echo_report(verified)
    if not verified.is_good:
        raise EmberqError("archive and topics differ")


def _show_lake(session: "SparkSession", lake: str) -> None:
    """What anybody can ask the files, with any tool that reads Parquet."""
    read_archive(session, "parquet", lake).createOrReplaceTempView("lake")
    click.echo("\n      SELECT … FROM the Parquet files: the five best customers")
    rows = session.sql(
        "SELECT get_json_object(string(body), '$.customer') AS customer, count(*) AS orders, "
        "round(sum(double(get_json_object(string(body), '$.amount'))), 2) AS amount "
        f"FROM lake WHERE topic = '{TOPIC}' AND tags = 'paid' AND string(body) LIKE '{{%' "
        "GROUP BY 1 ORDER BY amount DESC LIMIT 5"
    ).collect()
    for row in rows:
        click.echo(f"      {row['customer']:>8}  {row['orders']:>4}  {row['amount']:>10,.2f}")


def _say(step: int, text: str) -> None:
    click.echo(f"[{step}/{STEPS}] {text}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (EmberqError, OSError) as error:
        click.echo(f"emberq: {sentence(error)}", err=True)
        sys.exit(1)
