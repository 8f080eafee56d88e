"""`python -m benchmarks.transactions`: transactions and replies, beside the official broker.

A transaction is a half message and its commit, both answered; a round trip is a request, its reply,
the push to who waits for it and the answers to all three. All CPU is the broker's own. 5.5.0 keeps
a core busy from its first transaction on, whatever it has to do: what it uses at rest afterwards is
measured and shown, and taken off the second figure.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks import machine, official
from benchmarks.process_facts import cpu_time
from benchmarks.scenarios import brokers
from benchmarks.servers import Running
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer, new_request
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.registry import HandlerRegistry

RESULTS = Path(__file__).parent / "results"
BODY = b"x" * 128
WARM_UP_COUNT, COUNT = 10_000, 20_000
CONNECTIONS, IN_FLIGHT = 8, 16
REST_S = 4.0
CALL_TIMEOUT_S = 30.0
GROUP, CLIENT, TOPIC = "bench-payers", "bench-client", "bench-paid"
REQUEST_TOPIC = "bench-asked"
COMMIT = "8"
GOAL = 1.0

_HALF = f"UNIQ_KEY\x01{{0:032X}}\x02WAIT\x01true\x02TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02"
_REQUEST = (
    f"UNIQ_KEY\x01{{0:032X}}\x02WAIT\x01true\x02CORRELATION_ID\x01{{0}}\x02"
    f"REPLY_TO_CLIENT\x01{CLIENT}\x02TTL\x013000\x02"
)
Deed = Callable[[Connection, int], Awaitable[None]]


class Row(Struct, kw_only=True):
    broker: str
    what: str
    count: int
    per_s: int
    cpu_us: float
    rest_cpu_share: float  # of a core, when there is nothing to do
    cpu_us_without_rest: float

    @property
    def per_cpu_s(self) -> float:
        return 1e6 / self.cpu_us


class Report(Struct, kw_only=True):
    facts: machine.Facts
    rows: list[Row]


async def pay(connection: Connection, number: int) -> None:
    half = await _call(connection, _send(TOPIC, _HALF.format(number), "4"))
    fields = half.fields or {}
    end = {
        "producerGroup": GROUP,
        "tranStateTableOffset": fields["queueOffset"],
        "commitLogOffset": str(int(fields["msgId"][-16:], 16)),
        "commitOrRollback": COMMIT,
        "msgId": f"{number:032X}",
    }
    await _call(connection, new_request(RequestCode.END_TRANSACTION, end))


async def converse(connection: Connection, number: int) -> None:
    text = _REQUEST.format(number)
    await _call(connection, _send(REQUEST_TOPIC, text, "0"))
    reply = _send("DefaultCluster_REPLY_TOPIC", f"{text}MSG_TYPE\x01reply\x02", "0")
    reply.code = RequestCode.SEND_REPLY_MESSAGE_V2
    await _call(connection, reply)


def _send(topic: str, properties: str, system_flag: str) -> Command:
    fields = {"a": GROUP, "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": system_flag}
    fields |= {"g": str(time.time_ns() // 1_000_000), "h": "0", "i": properties, "j": "0"}
    return new_request(RequestCode.SEND_MESSAGE_V2, fields | {"k": "false", "m": "false"}, BODY)


async def _call(connection: Connection, request: Command) -> Command:
    response = await connection.call(request, CALL_TIMEOUT_S)
    if response.code != 0:
        raise RuntimeError(f"refused: {response.code} {response.remark}")
    return response


async def drive(port: int, deed: Deed, numbers: Iterator[int]) -> None:
    """A few connections with a window each; the first is also who waits for replies."""
    handlers = HandlerRegistry()
    handlers.add(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, lambda command, _: answer(command))
    connections = [await connect("127.0.0.1", port, Endpoint(handlers)) for _ in range(CONNECTIONS)]
    body = f'{{"clientID":"{CLIENT}","producerDataSet":[{{"groupName":"{GROUP}"}}]}}'
    await _call(connections[0], new_request(RequestCode.HEART_BEAT, None, body.encode()))

    async def lane(connection: Connection) -> None:
        for number in numbers:
            await deed(connection, number)

    await asyncio.gather(*(lane(each) for each in connections for _ in range(IN_FLIGHT)))
    for each in connections:
        each.abort()


def measure(running: Running, name: str, what: str, deed: Deed) -> Row:
    asyncio.run(drive(running.port, deed, iter(range(WARM_UP_COUNT))))
    before, started = cpu_time(running.pid), time.perf_counter()
    asyncio.run(drive(running.port, deed, iter(range(WARM_UP_COUNT, WARM_UP_COUNT + COUNT))))
    spent_s, cpu_s = time.perf_counter() - started, (cpu_time(running.pid) - before).total_s
    before = cpu_time(running.pid)
    time.sleep(REST_S)
    rest_share = (cpu_time(running.pid) - before).total_s / REST_S
    return Row(
        broker=name,
        what=what,
        count=COUNT,
        per_s=round(COUNT / spent_s),
        cpu_us=round(cpu_s * 1e6 / COUNT, 1),
        rest_cpu_share=round(rest_share, 2),
        cpu_us_without_rest=round(max(cpu_s - rest_share * spent_s, 0.0) * 1e6 / COUNT, 1),
    )


@contextmanager
def _broker(name: str) -> Iterator[Running]:
    with (
        brokers.emberq_broker()
        if name == "emberq"
        else brokers.official_broker(official.find_jars()) as running
    ):
        yield running


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.transactions", description=__doc__)
    options.add_argument("--alone", action="store_true", help="without the official broker")
    options.add_argument("--save", action="store_true", help="keep the figures in results/")
    chosen = options.parse_args()
    facts = machine.gather(java=None if chosen.alone else official.java_version())
    rows = []
    # Replies first on a broker of their own: one that has seen a transaction is never at rest.
    for what, deed in (("round trips", converse), ("transactions", pay)):
        for name in ("emberq",) if chosen.alone else ("emberq", "official"):
            with _broker(name) as running:
                rows.append(row := measure(running, name, what, deed))
            print(
                f"{row.what:<12}  {row.broker:<8}  {row.per_s:>7,}/s  {row.cpu_us:>7} µs CPU each"
                f"  {row.per_cpu_s:>8,.0f} per CPU-second  at rest {row.rest_cpu_share:.2f} cores"
                f"  {row.cpu_us_without_rest:>7} µs without that",
                flush=True,
            )
    if chosen.save:
        path = RESULTS / f"{facts.date[:10]}-{facts.commit[:10]}-transactions.json"
        content = msgspec.json.encode(Report(facts=facts, rows=rows))
        path.write_bytes(msgspec.json.format(content, indent=2) + b"\n")
    return _goal(rows)


def _goal(rows: list[Row]) -> int:
    """Whether EmberQ does as much per CPU-second as the official broker, its rest taken off."""
    missed = 0
    for ours in (row for row in rows if row.broker == "emberq"):
        for theirs in (row for row in rows if row.broker != "emberq" and row.what == ours.what):
            ratio = theirs.cpu_us_without_rest / ours.cpu_us
            print(f"{ours.what}: {ratio:.2f} × the official rate per CPU-second (goal {GOAL})")
            missed += ratio < GOAL
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
