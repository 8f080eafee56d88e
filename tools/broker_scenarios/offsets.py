"""Offsets: committed, searched by time, first and last; resets on the server's side."""

from typing import Any

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    Steps,
    ask,
    consumer,
    create_group,
    create_topic,
    found,
    heard,
    heartbeat,
    mark,
    on,
    oneway,
    pull,
    scenario,
    send,
    subscription,
    without,
)


def query(name: str, topic: str = "O1", /, **changes: Any) -> Step:
    return ask(name, 14, **({"consumerGroup": "g1", "topic": topic, "queueId": 0} | changes))


def commit(name: str, offset: Any, topic: str = "O1", /, **changes: Any) -> Step:
    fields = {"consumerGroup": "g1", "topic": topic, "queueId": 0, "commitOffset": offset}
    return ask(name, 15, **(fields | changes))


def committed_offsets() -> Steps:
    yield create_topic("topic", "O1", 2)
    yield create_group("group", "g1")
    yield query("empty queue")
    yield query("empty queue, no zero", setZeroIfNotFound=False)
    yield query("empty queue, zero wanted", setZeroIfNotFound=True)
    yield send("message", "O1")
    yield found(1, pull("the message", "O1"))
    yield query("young queue")
    yield query("young queue, no zero", setZeroIfNotFound=False)
    yield query("unknown queue", queueId=7)
    yield query("queue -1", queueId=-1)
    yield query("unknown topic", "Nowhere")
    yield query("unknown group", consumerGroup="nobody")
    yield without(query("without group"), "consumerGroup")
    yield without(query("without topic"), "topic")
    yield without(query("without queue"), "queueId")
    yield query("queue that is no number", queueId="x")
    yield commit("commit 5", 5)
    yield query("5 is committed")
    yield commit("commit 2", 2)
    yield query("2 is committed")
    yield commit("commit -1", -1)
    yield query("after committing -1")
    yield oneway(commit("commit oneway", 9))
    yield query("9 is committed")
    yield commit("commit in a queue that is not there", 4, queueId=9)
    yield query("in the queue that is not there", queueId=9)
    yield commit("commit of an unknown topic", 4, "Nowhere")
    yield commit("commit of an unknown group", 4, consumerGroup="nobody")
    for field in ("consumerGroup", "topic", "queueId", "commitOffset"):
        yield without(commit(f"commit without {field}", 4), field)
    yield commit("commit that is no number", "x")
    yield commit("commit with an empty group", 4, consumerGroup="")


def ends_and_times() -> Steps:
    yield create_topic("topic", "O2", 2)

    def by_time(name: str, time: Any, **changes: Any) -> Step:
        return ask(name, 29, **({"topic": "O2", "queueId": 0, "timestamp": time} | changes))

    yield ask("max of an empty queue", 30, topic="O2", queueId=0)
    yield ask("min of an empty queue", 31, topic="O2", queueId=0)
    yield ask("earliest time of an empty queue", 32, topic="O2", queueId=0)
    yield by_time("by time in an empty queue", 0)
    yield mark("before")
    yield send("message 0", "O2", "m0")
    yield mark("first")
    yield send("message 1", "O2", "m1")
    yield mark("second")
    yield send("message 2", "O2", "m2")
    yield found(3, pull("messages", "O2"))
    yield mark("after")
    yield ask("max", 30, topic="O2", queueId=0)
    yield ask("max, not committed", 30, topic="O2", queueId=0, committed=False)
    yield ask("min", 31, topic="O2", queueId=0)
    yield ask("earliest time", 32, topic="O2", queueId=0)
    for boundary in (None, "LOWER", "UPPER", "lower", "upper", "junk"):
        for moment in ("before", "first", "second", "after"):
            named = f"{moment}, boundary {boundary}"
            yield by_time(named, f"{{time {moment}}}", boundaryType=boundary)
    yield by_time("time 0", 0)
    yield by_time("time -1", -1)
    yield by_time("the far future", 1 << 50)
    for code in (29, 30, 31, 32):
        time = 0 if code == 29 else None
        yield ask(f"{code}: unknown topic", code, topic="Nowhere", queueId=0, timestamp=time)
        yield ask(f"{code}: unknown queue", code, topic="O2", queueId=9, timestamp=time)
        yield ask(f"{code}: queue -1", code, topic="O2", queueId=-1, timestamp=time)
        yield ask(f"{code}: other queue", code, topic="O2", queueId=1, timestamp=time)
        yield ask(f"{code}: no topic", code, queueId=0, timestamp=time)
        yield ask(f"{code}: no queue", code, topic="O2", timestamp=time)
        yield ask(f"{code}: empty topic", code, topic="", queueId=0, timestamp=time)
    yield ask("29 without a time", 29, topic="O2", queueId=0)


def reset(name: str, time: Any, /, **changes: Any) -> Step:
    fields = {"topic": "O3", "group": "g1", "timestamp": time, "isForce": True}
    return ask(name, 222, **(fields | changes))


def queue_of_three() -> Steps:
    yield create_topic("topic", "O3", 2)
    yield create_group("group", "g1")
    yield send("message 0", "O3", "m0")
    yield mark("first")
    yield send("message 1", "O3", "m1")
    yield send("message 2", "O3", "m2")
    yield found(3, pull("messages", "O3"))
    yield commit("commit 2", 2, "O3")


def resets_on_the_server() -> Steps:
    yield from queue_of_three()
    yield reset("to a time", "{time first}")
    yield query("offset while a reset waits", "O3")
    yield commit("commit while a reset waits", 3, "O3")
    yield query("offset after that commit", "O3")
    yield pull("the pull gets the reset", "O3", 3)
    yield pull("the next pull does not", "O3", 1)
    yield commit("commit after the reset", 3, "O3")
    yield query("commit is taken again", "O3")
    yield reset("to the end", -1)
    yield pull("pull after a reset to the end", "O3", 0)
    yield reset("to the start", 0)
    yield pull("pull after a reset to the start", "O3", 2)
    yield reset("to a later time without force", "{now}", isForce=False)
    yield pull("pull after a reset without force", "O3", 0)
    yield reset("one queue to an offset", 0, queueId=0, offset=2)
    yield pull("pull after a reset to an offset", "O3", 0)
    yield pull("the other queue is left alone", "O3", 0, queueId=1)
    yield reset("offset past the end", 0, queueId=0, offset=4)
    yield reset("offset at the end", 0, queueId=0, offset=3)
    yield reset("negative offset", 0, queueId=0, offset=-2)
    yield reset("one queue by time", "{time first}", queueId=0)
    yield reset("one queue by time, offset -1", "{time first}", queueId=0, offset=-1)
    yield reset("queue that is not there", 0, queueId=7)
    yield reset("queue that is not there, with an offset", 0, queueId=7, offset=0)
    yield reset("unknown topic", 0, topic="Nowhere")
    yield reset("unknown group", 0, group="nobody")
    for field in ("topic", "group", "timestamp", "isForce"):
        yield without(reset(f"without {field}", 0), field)
    yield reset("to the far future", 1 << 50)
    yield pull("pull after a reset to the far future", "O3", 0)


def resets_by_clients() -> Steps:
    yield from queue_of_three()
    yield reset("nobody online", 0)
    yield on("b", heartbeat("heartbeat", "c1", consumer("g1", subscription("O3"))))
    yield heard("b", "told of its own arrival")
    yield reset("no offset committed in the other queue", 0)
    yield commit("commit in the other queue", 0, "O3", queueId=1)
    yield reset("to a time, forced", "{time first}")
    yield heard("b", "told to reset")
    yield query("the broker stores nothing", "O3")
    yield reset("later than committed, not forced", -1, isForce=False)
    yield heard("b", "told to stay")
    yield reset("to the end, forced", -1)
    yield heard("b", "told to go to the end")
    yield reset("to the start, not forced", 0, isForce=False)
    yield heard("b", "told to go to the start")
    yield reset("unknown topic", 0, topic="Nowhere")
    yield reset("unknown group", 0, group="nobody")


def corrections() -> Steps:
    yield create_topic("topic", "O4", 2)
    for group in ("g1", "g2", "g3"):
        yield create_group(f"group {group}", group)
    for number in range(3):
        yield send(f"message {number}", "O4", f"m{number}")
    yield found(3, pull("messages", "O4"))
    yield commit("g1 at 1", 1, "O4")
    yield commit("g2 at 3", 3, "O4", consumerGroup="g2")
    yield commit("g2 at 2 in queue 1", 2, "O4", consumerGroup="g2", queueId=1)
    yield ask("smallest of all groups", 308, topic="O4", compareGroup="g2")
    yield ask("compared with a new group", 308, topic="O4", compareGroup="g3")
    yield ask("compared with nobody", 308, topic="O4", compareGroup="nobody")
    yield ask("unknown topic", 308, topic="Nowhere", compareGroup="g2")
    yield ask("without a compared group", 308, topic="O4")
    yield ask("one left out", 308, topic="O4", compareGroup="g2", filterGroups="g1")
    yield query("its offsets are gone", "O4", setZeroIfNotFound=False)
    yield ask("clone", 314, srcGroup="g2", destGroup="g3", topic="O4", offline=True)
    yield query("cloned", "O4", consumerGroup="g3")
    yield ask("clone without a topic", 314, srcGroup="g2", destGroup="g1", offline=True)
    yield query("nothing cloned", "O4", setZeroIfNotFound=False)
    yield ask("clone of nobody", 314, srcGroup="nobody", destGroup="g1", topic="O4")
    yield ask("clone of an unknown topic", 314, srcGroup="g2", destGroup="g1", topic="Nowhere")
    yield ask("clone without a source", 314, destGroup="g1", topic="O4")


SCENARIOS = (
    scenario(committed_offsets),
    scenario(ends_and_times),
    scenario(resets_on_the_server),
    scenario(resets_by_clients, useServerSideResetOffset="false"),
    scenario(corrections),
)
