"""What is measured: ways to produce and to consume, and the clients that have them."""

from enum import StrEnum

from msgspec import Struct

from benchmarks.client.worker import BATCH_COUNT, IN_FLIGHT, LINGERING_CALLERS, POLL_COUNT

SIZES = (128, 1024)
# So many are waiting in the topic that a row consumes.
CONSUMED_COUNT = 150_000


class Program(StrEnum):
    """A client under test, a process of its own."""

    EMBERQ = "emberq"
    JAVA = "java"
    GO = "go"
    AIOKAFKA = "aiokafka"
    CONFLUENT = "confluent"


ON_KAFKA = frozenset({Program.AIOKAFKA, Program.CONFLUENT})


class Way(Struct, frozen=True):
    """One way to use a client: an order's verb and mode, and who knows it."""

    verb: str
    mode: str
    title: str
    programs: tuple[Program, ...]


_ALL = tuple(Program)
_ROCKETMQ = (Program.EMBERQ, Program.JAVA, Program.GO)
WAYS = (
    Way("produce", "one", "send, one after the other", _ALL),
    Way("produce", "in-flight", f"send, {IN_FLIGHT} in flight", _ALL),
    Way("produce", "batch", f"send batches of {BATCH_COUNT}", _ROCKETMQ),
    Way(
        "produce",
        "lingering",
        f"automatic batches, {LINGERING_CALLERS:,} callers",
        (Program.EMBERQ, Program.JAVA, Program.AIOKAFKA, Program.CONFLUENT),
    ),
    Way("produce", "futures", "automatic batches, results looked at later", (Program.AIOKAFKA,)),
    Way("consume", "async", "consume, async handler", (Program.EMBERQ, Program.AIOKAFKA)),
    Way("consume", "batch", f"consume, handler of up to {BATCH_COUNT}", _ROCKETMQ),
    Way("consume", "sync", "consume, sync handler", (*_ROCKETMQ, Program.CONFLUENT)),
    Way(
        "consume",
        "pull",
        f"pull, up to {POLL_COUNT} at a time",
        (Program.EMBERQ, Program.JAVA, Program.AIOKAFKA, Program.CONFLUENT),
    ),
)
