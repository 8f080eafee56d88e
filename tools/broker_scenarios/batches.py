"""Batches (code 320): what is refused, and what becomes of the messages inside."""

from tools.broker_scenarios.steps import (
    Steps,
    batch,
    create_group,
    create_topic,
    found,
    has_code,
    inner,
    oneway,
    properties,
    pull,
    scenario,
    send,
    without,
)

FIRST = inner("one", properties(KEYS="k1", TAGS="TagA", UNIQ_KEY="UK-1", WAIT="true"), flag=3)
SECOND = inner("two", "KEYS\x01k2")
THIRD = inner("three")


def batches() -> Steps:
    yield create_topic("topic", "B1")
    yield batch("three messages", "B1", FIRST, SECOND, THIRD)
    yield batch("one message", "B1", FIRST)
    yield batch("with properties of its own", "B1", FIRST, SECOND, i=properties(WAIT="true", x="y"))
    yield batch("with open properties of its own", "B1", FIRST, SECOND, THIRD, i="x\x01y")
    yield batch("with a key of its own", "B1", FIRST, i=properties(UNIQ_KEY="UK-2,UK-3"))
    yield batch("without the batch flag", "B1", FIRST, SECOND, m=False)
    yield batch("with compression set", "B1", FIRST, f=1)
    yield oneway(batch("oneway", "B1", FIRST, SECOND))
    yield found(14, pull("what is stored", "B1"))
    yield batch("to any queue", "B1", FIRST, SECOND, e=-1)
    yield batch("to a queue that is not there", "B1", FIRST, e=5)
    yield batch("to a new topic", "B2", FIRST, SECOND)
    yield found(2, pull("of the new topic", "B2"))


def refused_batches() -> Steps:
    yield create_topic("topic", "B3")
    yield batch("no messages", "B3")
    yield batch("cut inside a message", "B3", FIRST[:-3])
    yield batch("cut inside the second message", "B3", FIRST, SECOND[:10])
    yield batch("three bytes", "B3", b"abc")
    yield batch("delayed", "B3", FIRST, i=properties(DELAY="1"))
    yield batch("delayed inside", "B3", inner("late", properties(DELAY="1")))
    yield batch("prepared", "B3", FIRST, f=4)
    yield batch("half", "B3", FIRST, i=properties(TRAN_MSG="true", PGROUP="p1"), f=4)
    yield batch("over the limit", "B3", inner(b"x" * (4 << 20)))
    yield batch("empty name", "", FIRST)
    yield batch("name of 128 letters", "n" * 128, FIRST)
    yield batch("to a system topic", "SCHEDULE_TOPIC_XXXX", FIRST)
    yield create_group("a group", "g1")
    yield batch("to a retry topic", "%RETRY%g1", FIRST)
    yield batch("to an unknown template's topic", "B4", FIRST, c="Nowhere")
    yield without(batch("without a topic", "B3", FIRST), "b")
    yield send("one message, said to be a batch", "B3", FIRST, m=True)
    yield has_code(0, pull("what is stored", "B3"))


def many_in_one() -> Steps:
    yield create_topic("topic", "B5")
    yield batch("forty messages", "B5", *(inner(f"m{number}") for number in range(40)))
    yield found(32, pull("the first 32", "B5", maxMsgNums=64))
    yield found(8, pull("the rest", "B5", 32))


SCENARIOS = (scenario(batches), scenario(refused_batches), scenario(many_in_one))
