"""Transactions: half messages, how they end, and how the broker asks for those that did not."""

from typing import Any

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    Steps,
    answered,
    ask,
    create_group,
    create_topic,
    eventually,
    found,
    heard,
    heartbeat,
    in_long_form,
    keep,
    on,
    oneway,
    properties,
    pull,
    quiet,
    scenario,
    send,
    silent,
    start,
    without,
)

HALF_TOPIC, OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
PARKED_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


def half(name: str, topic: str, body: str, /, pairs: Any = None, **changes: Any) -> Step:
    text = properties(TRAN_MSG="true", PGROUP="p1", **(pairs or {}))
    return send(name, topic, body, **({"i": text, "f": 4} | changes))


def end(name: str, message: str, queue_offset: int, kind: int = COMMIT, /, **changes: Any) -> Step:
    """Code 37 as a Java producer fills it."""
    fields = {"producerGroup": "p1", "tranStateTableOffset": queue_offset}
    fields |= {"commitLogOffset": f"{{offset {message}}}", "commitOrRollback": kind}
    fields |= {"fromTransactionCheck": False, "msgId": "UK", "transactionId": "UK"}
    return ask(name, 37, **(fields | {"bname": "brk-a"} | changes))


def half_messages() -> Steps:
    yield create_topic("topic", "T1", 4)
    pairs = {"KEYS": "k1", "TAGS": "TagA", "UNIQ_KEY": "UK-1", "WAIT": "true"}
    yield half("half message", "T1", "one", pairs, e=3, h=7)
    yield half("TRAN_MSG in capitals", "T1", "two", i=properties(TRAN_MSG="TRUE", PGROUP="p1"))
    yield send("TRAN_MSG false", "T1", "three", i=properties(TRAN_MSG="false", PGROUP="p1"))
    yield half("without the prepared bit", "T1", "four", f=0)
    yield half("without a group", "T1", "five", i=properties(TRAN_MSG="true"))
    yield in_long_form(half("code 10", "T1", "six"))
    yield half("queue 9 of 4", "T1", "seven", e=9)
    yield half("a new topic", "T2", "eight", {"UNIQ_KEY": "UK-2"})
    yield half("consumed before", "T1", "nine", j=2)
    yield oneway(half("oneway", "T1", "ten"))
    yield found(8, pull("half topic", HALF_TOPIC))
    yield pull("topic without them", "T1")
    yield pull("the message that is none", "T1", code=11)
    yield pull("the new topic", "T2")
    yield ask("half topic's settings", 351, topic=HALF_TOPIC)
    yield ask("op topic's settings", 351, topic=OP_TOPIC)
    yield ask("parked topic's settings", 351, topic=PARKED_TOPIC)


def half_messages_with_delay() -> Steps:
    yield create_topic("topic", "T1", 1)
    yield half("half message with a delay", "T1", "one", {"DELAY": "1"})
    yield half("consumed before, with a delay", "T1", "two", {"DELAY": "1"}, j=1)
    yield pull("half topic", HALF_TOPIC)
    yield found(2, pull("schedule topic", "SCHEDULE_TOPIC_XXXX"))


def half_messages_to_retry_topics() -> Steps:
    yield create_group("group", "g1")
    yield half("to a retry topic", "%RETRY%g1", "one")
    yield found(1, pull("half topic", HALF_TOPIC))


def endings() -> Steps:
    yield create_topic("topic", "T1", 2)
    pairs = {"KEYS": "k1", "TAGS": "TagA", "UNIQ_KEY": "UK-1", "WAIT": "true"}
    yield keep("m0", half("first half", "T1", "one", pairs, h=7, e=1))
    yield end("commit", "m0", 0)
    yield found(1, pull("committed", "T1", queueId=1))
    yield keep("m1", half("second half", "T1", "two"))
    yield end("rollback", "m1", 1, ROLLBACK)
    yield keep("m2", half("third half", "T1", "three", {"UNIQ_KEY": "UK-3"}))
    yield start("unknown", end("unknown end", "m2", 2, UNKNOWN))
    yield quiet("unknown", "an unknown end is not answered")
    yield end("end of another kind", "m2", 2, 4)
    yield end("wrong group", "m2", 2, producerGroup="p9")
    yield end("wrong queue offset", "m2", 3)
    yield end("log offset of another message", "m1", 2)
    yield end("log offset of nothing", "m2", 2, commitLogOffset=1_000_000)
    yield end("log offset between records", "m2", 2, commitLogOffset="{offset m2+8}")
    yield end("negative log offset", "m2", 2, commitLogOffset=-1)
    yield end("rollback with the wrong group", "m2", 2, ROLLBACK, producerGroup="p9")
    yield end("rollback of nothing", "m2", 2, ROLLBACK, commitLogOffset=1_000_000)
    for field in (
        *("producerGroup", "tranStateTableOffset", "commitLogOffset", "commitOrRollback"),
    ):
        yield without(end(f"without {field}", "m2", 2), field)
    yield end("kind is no number", "m2", 2, commitOrRollback="x")
    yield without(
        end("without what may be absent", "m2", 2),
        *("fromTransactionCheck", "transactionId", "bname", "msgId"),
    )
    yield found(1, pull("committed too", "T1"))
    yield keep("m3", half("fourth half", "T1", "four", {"UNIQ_KEY": "UK-4"}))
    yield oneway(end("oneway", "m3", 3))
    yield found(2, pull("committed without an answer", "T1"))
    yield keep("m4", half("without a group", "T1", "five", i=properties(TRAN_MSG="true")))
    yield end("end of one without a group", "m4", 4)
    yield keep("plain", send("plain message", "T1", "plain", e=1))
    yield end("end of a plain message", "plain", 1)
    yield keep("claimed", send("plain with a group", "T1", "plain", i=properties(PGROUP="p1")))
    yield end("end of a plain message with a group", "claimed", 2)


def operations() -> Steps:
    """Alone, so that nothing else moves offsets: what is written when a transaction ends."""
    yield create_topic("topic", "T1", 1)
    yield keep("m0", half("first half", "T1", "one"))
    yield end("commit", "m0", 0)
    yield found(1, pull("operation", OP_TOPIC))


def ended_twice() -> Steps:
    yield create_topic("topic", "T1", 1)
    yield keep("m0", half("first half", "T1", "one", {"UNIQ_KEY": "UK-1"}))
    yield end("commit", "m0", 0)
    yield end("commit again", "m0", 0)
    yield end("rollback after the commit", "m0", 0, ROLLBACK)
    yield keep("m1", half("second half", "T1", "two", {"UNIQ_KEY": "UK-2"}))
    yield end("rollback", "m1", 1, ROLLBACK)
    yield end("rollback again", "m1", 1, ROLLBACK)
    yield end("commit after the rollback", "m1", 1)
    yield send("a last message", "T1", "last")
    yield eventually(
        lambda shape: any(record.get("body") == "last" for record in shape.get("records", ())),
        pull("all that consumers see", "T1"),
    )


def checks() -> Steps:
    yield create_topic("topic", "T1", 2)
    yield on("b", heartbeat("a producer", "c1", producers=("p1",)))
    pairs = {"KEYS": "k1", "TAGS": "TagA", "UNIQ_KEY": "UK-1"}
    yield half("half message", "T1", "one", pairs, g="{now}", e=1)
    yield heard("b", "the broker asks")
    yield keep("copy", found(1, pull("the copy", HALF_TOPIC, 1)))
    yield end("commit of the copy", "copy", 1, fromTransactionCheck=True)
    yield found(1, pull("committed", "T1", queueId=1))
    yield silent("b", "the broker asks no more")


def checks_without_a_producer() -> Steps:
    yield create_topic("topic", "T1", 1)
    yield half("half message", "T1", "one", {"UNIQ_KEY": "UK-1"}, g="{now}")
    yield found(2, pull("half topic", HALF_TOPIC, maxMsgNums=2))
    yield on("b", heartbeat("a producer", "c1", producers=("p1",)))
    yield heard("b", "the broker asks")


def checks_without_an_end() -> Steps:
    yield create_topic("topic", "T1", 1)
    yield on("b", heartbeat("a producer", "c1", producers=("p1",)))
    yield half("half message", "T1", "one", {"UNIQ_KEY": "UK-1"}, g="{now}")
    yield heard("b", "the broker asks")
    yield heard("b", "the broker asks again")
    yield keep("parked", found(1, pull("parked", PARKED_TOPIC)))
    yield silent("b", "the broker asks no more")
    yield found(3, pull("half topic", HALF_TOPIC))
    yield ask("parked topic's settings", 351, topic=PARKED_TOPIC)
    yield ask("resumed", 323, msgId="{id parked}", topic="T1")
    yield ask("half topic after it", 30, topic=HALF_TOPIC, queueId=0)


def resuming() -> Steps:
    yield create_topic("topic", "T1", 1)
    yield on("b", heartbeat("a producer", "c1", producers=("p1",)))
    yield keep("m0", half("half message", "T1", "one", {"UNIQ_KEY": "UK-1"}, g="{now}"))
    yield ask("resumed", 323, msgId="{id m0}")
    yield found(2, pull("half topic", HALF_TOPIC))
    yield ask("nothing", 323, msgId="7F00000100002A9F0000000000FFFFFF")
    yield ask("no id", 323, msgId="nonsense")
    yield ask("without an id", 323)
    yield keep("plain", send("plain message", "T1", "plain"))
    yield ask("a plain message", 323, msgId="{id plain}")
    yield pull("half topic after it", HALF_TOPIC)


def old_half_messages() -> Steps:
    yield create_topic("topic", "T1", 1)
    yield on("b", heartbeat("a producer", "c1", producers=("p1",)))
    yield half("born years ago", "T1", "one", {"UNIQ_KEY": "UK-1"})
    yield found(1, pull("parked", PARKED_TOPIC))
    yield silent("b", "the broker does not ask")


def flags_of_copies() -> Steps:
    yield create_topic("topic", "T1", 1)
    yield on("b", heartbeat("a producer", "c1", producers=("p1",)))
    yield half("half message", "T1", "one", {"UNIQ_KEY": "UK-1"}, g="{now}", h=7)
    yield heard("b", "the broker asks")
    yield found(1, pull("the copy", HALF_TOPIC, 1, maxMsgNums=1))


def half_count(name: str, count: int) -> Step:
    return eventually(
        lambda shape: shape.get("extFields") == {"offset": str(count)},
        ask(name, 30, topic=HALF_TOPIC, queueId=0),
    )


def immunity() -> Steps:
    yield create_topic("topic", "T1", 1)
    pairs = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "5", "UNIQ_KEY": "UK-1"}
    yield half("half message", "T1", "one", pairs, g="{now}")
    yield found(1, pull("put back", HALF_TOPIC, 1, maxMsgNums=1))


def immunity_ends() -> Steps:
    yield create_topic("topic", "T1", 1)
    yield on("b", heartbeat("a producer", "c1", producers=("p1",)))
    pairs = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "3", "UNIQ_KEY": "UK-1"}
    yield half("half message", "T1", "one", pairs, g="{now}")
    yield half_count("put back", 2)
    yield silent("b", "the broker does not ask yet")
    yield heard("b", "the broker asks later")


def immunity_decided() -> Steps:
    yield create_topic("topic", "T1", 1)
    pairs = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "20", "UNIQ_KEY": "UK-1"}
    yield keep("m0", half("half message", "T1", "one", pairs, g="{now}"))
    yield half_count("put back", 2)
    yield end("commit of the first", "m0", 0)
    yield found(1, pull("committed", "T1"))


def late_endings() -> Steps:
    yield create_topic("topic", "T1", 1)
    for number, text in enumerate(("2", "-1", "x", "900", "0")):
        pairs = {"CHECK_IMMUNITY_TIME_IN_SECONDS": text, "UNIQ_KEY": f"UK-{number}"}
        name = f"m{number}"
        yield keep(name, half(f"immune for {text}", "T1", text, pairs, g="{now-30000}"))
        yield end(f"rollback after {text}", name, number, ROLLBACK)
        yield end(f"commit after {text}", name, number)
        yield end(f"commit after {text} and a check", name, number, fromTransactionCheck=True)


def answered_later() -> Steps:
    """What a producer says of the first message counts although there is a copy."""
    yield create_topic("topic", "T1", 1)
    yield keep("m0", half("half message", "T1", "one", {"UNIQ_KEY": "UK-1"}, g="{now}"))
    yield found(2, pull("half topic", HALF_TOPIC, maxMsgNums=2))
    yield start("late", end("commit of the first", "m0", 0))
    yield answered("late", "it is answered")
    yield found(1, pull("committed", "T1"))


QUICK = {"transactionTimeOut": "1000", "transactionCheckInterval": "2000"}
CALM = {"transactionCheckInterval": "600000"}

SCENARIOS = (
    scenario(half_messages, **CALM),
    scenario(half_messages_with_delay, **CALM),
    scenario(half_messages_to_retry_topics, **CALM),
    scenario(endings, **CALM),
    scenario(operations, **CALM),
    scenario(ended_twice, **CALM),
    scenario(checks, **QUICK),
    scenario(checks_without_a_producer, **QUICK),
    scenario(checks_without_an_end, transactionCheckMax="2", **QUICK),
    scenario(resuming, **CALM),
    scenario(old_half_messages, **QUICK),
    scenario(flags_of_copies, **QUICK),
    scenario(immunity, **QUICK),
    scenario(immunity_ends, **QUICK),
    scenario(immunity_decided, **QUICK),
    scenario(late_endings, **CALM),
    scenario(answered_later, **QUICK),
)
