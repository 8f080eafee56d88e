"""Long polls: held, answered by an arrival, by their deadline, by a closed connection."""

from typing import Any

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    COMMIT,
    LITE,
    SUBSCRIPTION,
    SUSPEND,
    Steps,
    answered,
    ask,
    close,
    consumer,
    create_topic,
    found,
    heartbeat,
    on,
    properties,
    pull,
    quiet,
    scenario,
    send,
    start,
    subscription,
)

HELD = SUBSCRIPTION | SUSPEND


def wait(name: str, topic: str, offset: int = 0, /, **changes: Any) -> Step:
    return pull(
        name, topic, offset, **({"sysFlag": HELD, "suspendTimeoutMillis": 15_000} | changes)
    )


def arrivals() -> Steps:
    yield create_topic("topic", "W1", 2)
    yield start("empty", on("b", wait("wait on an empty queue", "W1")))
    yield start("other", on("c", wait("wait on the other queue", "W1", queueId=1)))
    yield quiet("empty", "held")
    yield send("arrival", "W1", "m0")
    yield answered("empty", "answered by the arrival")
    yield quiet("other", "the other queue's is held")
    yield start("end", on("b", wait("wait at the end", "W1", 1)))
    yield start("end2", on("d", wait("two wait at the end", "W1", 1, consumerGroup="g2")))
    yield start("lite", on("e", wait("a lite pull waits", "W1", 1, code=361, sysFlag=HELD | LITE)))
    yield send("second arrival", "W1", "m1")
    yield answered("end", "first of three")
    yield answered("end2", "second of three")
    yield answered("lite", "third of three")
    yield start("filter", on("b", wait("wait for a tag", "W1", 2, subscription="TagA")))
    yield send("another tag arrives", "W1", "m2", i=properties(TAGS="TagB"))
    yield quiet("filter", "another tag does not answer it")
    yield send("the tag arrives", "W1", "m3", i=properties(TAGS="TagA"))
    yield answered("filter", "answered by the tag")
    yield start("past", on("b", wait("past the end is not held", "W1", 9)))
    yield answered("past", "past the end is answered at once")
    yield start(
        "filtered", on("b", wait("nothing matches is not held", "W1", 0, subscription="No"))
    )
    yield answered("filtered", "nothing matches is answered at once")
    yield send("arrival in the other queue", "W1", "n0", e=1)
    yield answered("other", "the other queue's is answered")


def deadlines() -> Steps:
    yield create_topic("topic", "W2")
    yield start("short", on("b", wait("a short wait", "W2", suspendTimeoutMillis=500)))
    yield start("zero", on("c", wait("no time at all", "W2", suspendTimeoutMillis=0)))
    yield start("minus", on("d", wait("less than no time", "W2", suspendTimeoutMillis=-1)))
    flags = HELD | COMMIT
    yield start("commit", on("e", wait("with a commit", "W2", sysFlag=flags, commitOffset=7)))
    yield answered("short", "the short wait ends")
    yield answered("zero", "no time at all ends")
    yield answered("minus", "less than no time ends")
    yield ask("the commit was taken", 14, consumerGroup="g1", topic="W2", queueId=0)
    yield ask("another commit", 15, consumerGroup="g1", topic="W2", queueId=0, commitOffset=3)
    yield send("arrival", "W2")
    yield answered("commit", "answered by the arrival")
    yield ask("the replay does not commit", 14, consumerGroup="g1", topic="W2", queueId=0)


def departures() -> Steps:
    yield create_topic("topic", "W3")
    yield start("gone", on("b", wait("waits and leaves", "W3")))
    yield quiet("gone", "held")
    yield close("b")
    yield start("stays", on("c", wait("waits and stays", "W3")))
    yield send("arrival", "W3")
    yield answered("stays", "the one that stayed is answered")
    yield found(1, pull("the message", "W3"))


def subscribed_by_heartbeat() -> Steps:
    yield create_topic("topic", "W4")
    yield on("b", heartbeat("heartbeat", "c1", consumer("g1", subscription("W4", "TagA"))))
    yield start("held", on("b", wait("wait by heartbeat", "W4", sysFlag=SUSPEND)))
    yield quiet("held", "held")
    yield send("another tag", "W4", "m0", i=properties(TAGS="TagB"))
    yield quiet("held", "still held")
    yield send("the tag", "W4", "m1", i=properties(TAGS="TagA"))
    yield answered("held", "answered")


def short_polling() -> Steps:
    yield create_topic("topic", "W5")
    yield start("held", on("b", wait("wait", "W5")))
    yield quiet("held", "held for a second")
    yield answered("held", "answered after a second")


def batches_of_arrivals() -> Steps:
    yield create_topic("topic", "W6")
    for number in range(20):
        yield start(f"w{number}", on(f"b{number}", wait(f"wait {number}", "W6")))
    yield quiet("w0", "all are held")
    yield send("one message", "W6", "m0")
    for number in range(20):
        yield answered(f"w{number}", f"answer {number}")


SCENARIOS = (
    scenario(arrivals),
    scenario(deadlines),
    scenario(departures),
    scenario(subscribed_by_heartbeat),
    scenario(short_polling, longPollingEnable="false"),
    scenario(batches_of_arrivals),
)
