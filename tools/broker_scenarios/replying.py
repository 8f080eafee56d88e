"""Replies: sent to the broker (324, 325), pushed to who waits for them (326)."""

from typing import Any

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    LONG_NAMES,
    Steps,
    answered,
    changed,
    close,
    create_topic,
    eventually,
    found,
    heard,
    heartbeat,
    on,
    oneway,
    properties,
    pull,
    reply,
    scenario,
    send,
    silent,
    start,
    without,
)

REPLY_TOPIC = "C1_REPLY_TOPIC"


def reply_text(client: str = "c1", **pairs: Any) -> str:
    return properties(
        CORRELATION_ID="corr-1", REPLY_TO_CLIENT=client, TTL="3000", MSG_TYPE="reply", **pairs
    )


def send_reply(name: str, body: bytes | str = b"answer", /, **changes: Any) -> Step:
    """Code 325 with the fields of a Java consumer."""
    topic = changes.pop("b", REPLY_TOPIC)
    return changed(send(name, topic, body, **({"i": reply_text()} | changes)), code=325)


def in_long_reply_form(step: Step) -> Step:
    """The same as code 324."""
    assert step.request is not None
    fields = {LONG_NAMES[key]: value for key, value in step.request.fields.items()}
    return changed(step, code=324, fields=fields)


def pushed_replies() -> Steps:
    yield on("b", heartbeat("a requester", "c1", producers=("p1",)))
    yield start("one", send_reply("reply", i=reply_text(UNIQ_KEY="UK-1", KEYS="k1"), h=7))
    yield heard("b", "it is pushed")
    yield reply("b", "taken")
    yield answered("one", "the replier hears of it")
    yield start("two", in_long_reply_form(send_reply("reply by code 324", "second")))
    yield heard("b", "the second is pushed")
    yield reply("b", "taken too")
    yield answered("two", "the replier hears of the second")
    yield start("three", send_reply("a reply that is not taken", "third"))
    yield heard("b", "the third is pushed")
    yield reply("b", "not taken", 1)
    yield answered("three", "the replier hears that it was not")
    yield start("four", send_reply("any queue", "fourth", e=-1, j=2, f=1))
    yield heard("b", "the fourth is pushed")
    yield reply("b", "taken as well")
    yield answered("four", "the replier hears of the fourth")
    yield oneway(send_reply("oneway", "fifth"))
    yield heard("b", "the fifth is pushed")
    yield reply("b", "taken again")
    yield eventually(
        lambda shape: any(record.get("body") == "fifth" for record in shape.get("records", ())),
        pull("replies are stored", REPLY_TOPIC),
    )


def refused_replies() -> Steps:
    yield send_reply("nobody has this id")
    yield send_reply("no client is named", i=properties(CORRELATION_ID="x"))
    yield send_reply("no properties", i="")
    yield send_reply("wrong name of a topic", b="a.b")
    yield send_reply("to a topic that nobody may send to", b="SCHEDULE_TOPIC_XXXX")
    yield send_reply("queue 5 of 1", e=5)
    yield without(send_reply("without a topic"), "b")
    yield without(send_reply("without a queue"), "e")
    yield without(send_reply("without a group"), "a")
    yield send_reply("queue is no number", e="x")
    yield send_reply("to a topic of users", b="Fresh")
    yield create_topic("topic", "T1", 1)
    yield on("b", heartbeat("a requester", "c1", producers=("p1",)))
    yield start("one", send_reply("to a topic that is no reply topic", b="T1"))
    yield heard("b", "it is pushed all the same")
    yield reply("b", "taken")
    yield answered("one", "the replier hears of it")
    yield close("b")
    yield eventually(lambda shape: bool(shape["code"] == 1), send_reply("the requester is gone"))
    yield found(3, pull("what is stored of them", REPLY_TOPIC, maxMsgNums=3))


def replies_that_are_not_stored() -> Steps:
    yield on("b", heartbeat("a requester", "c1", producers=("p1",)))
    yield start("one", send_reply("reply"))
    yield heard("b", "it is pushed")
    yield reply("b", "taken")
    yield answered("one", "the replier hears of it")
    yield send_reply("nobody has this id", i=reply_text("c9"))
    yield pull("nothing is stored", REPLY_TOPIC)


def consumers_get_no_replies() -> Steps:
    yield on("b", heartbeat("no producer", "c1"))
    yield send_reply("reply")
    yield silent("b", "it is not pushed")


SCENARIOS = (
    scenario(pushed_replies),
    scenario(refused_replies),
    scenario(replies_that_are_not_stored, storeReplyMessageEnable="false"),
    scenario(consumers_get_no_replies),
)
