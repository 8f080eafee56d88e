"""Statistics: consume progress, time spans, counters, and the facts of a running broker."""

from typing import Any

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    Steps,
    ask,
    consumer,
    create_group,
    create_topic,
    found,
    heartbeat,
    keep,
    on,
    properties,
    pull,
    scenario,
    send,
    subscription,
)


def commit(name: str, offset: int, topic: str = "S1", group: str = "g1") -> Step:
    return ask(name, 15, consumerGroup=group, topic=topic, queueId=0, commitOffset=offset)


def consume_progress() -> Steps:
    def progress(name: str, /, **changes: Any) -> Step:
        return ask(name, 208, **({"consumerGroup": "g1"} | changes))

    yield create_topic("topic", "S1", 2)
    yield create_topic("other topic", "S2")
    yield create_group("group", "g1")
    yield progress("nothing known")
    for number in range(3):
        yield send(f"message {number}", "S1", f"m{number}")
    yield found(3, pull("messages", "S1", consumerGroup="other"))
    yield progress("nothing committed")
    yield commit("commit", 2)
    yield progress("2 committed")
    yield pull("pull of the group", "S1", 2)
    yield progress("after its pull")
    yield progress("of one topic", topic="S1")
    yield progress("of another topic", topic="S2")
    yield progress("of an unknown topic", topic="Nowhere")
    yield progress("of a list of topics", topicList="S1;S2")
    yield progress("of an unknown group", consumerGroup="nobody")
    yield ask("of no group", 208)
    yield on("b", heartbeat("heartbeat", "c1", consumer("g1", subscription("S2"))))
    yield progress("online without this topic")
    yield progress("online, asked for this topic", topic="S1")
    yield commit("commit in the other topic", 0, "S2")
    yield progress("online with the other topic")
    yield ask("of all groups", 317, isOrder=False)
    yield ask("of all ordered groups", 317, isOrder=True)
    yield ask("of all groups, not said which", 317)
    yield ask("time span", 303, topic="S1", group="g1")
    yield ask("time span of an empty topic", 303, topic="S2", group="g1")
    yield ask("time span of an unknown topic", 303, topic="Nowhere", group="g1")
    yield ask("time span of an unknown group", 303, topic="S1", group="nobody")
    yield ask("time span of no topic", 303, group="g1")
    yield ask("time span of no group", 303, topic="S1")


def counters() -> Steps:
    def view(name: str, statistic: str, key: str) -> Step:
        return ask(name, 315, statsName=statistic, statsKey=key)

    yield create_topic("topic", "S3")
    yield create_group("group", "g1")
    yield view("nothing sent yet", "TOPIC_PUT_NUMS", "S3")
    yield keep("m", send("message", "S3", "m0", i=properties(UNIQ_KEY="UK-1")))
    yield found(1, pull("the message", "S3"))
    yield ask("send back", 36, offset="{offset m}", group="g1", delayLevel=1, originTopic="S3")
    for statistic, key in (
        *(("TOPIC_PUT_NUMS", "S3"), ("TOPIC_PUT_SIZE", "S3"), ("GROUP_GET_NUMS", "S3@g1")),
        *(("GROUP_GET_SIZE", "S3@g1"), ("SNDBCK_PUT_NUMS", "S3@g1"), ("BROKER_PUT_NUMS", "C1")),
        *(("BROKER_GET_NUMS", "C1"), ("QUEUE_PUT_NUMS", "S3@0"), ("QUEUE_GET_NUMS", "S3@0@g1")),
        *(("QUEUE_PUT_SIZE", "S3@0"), ("QUEUE_GET_SIZE", "S3@0@g1"), ("TOPIC_PUT_NUMS", "Nope")),
        *(("NOPE", "S3"), ("GROUP_GET_LATENCY", "0@S3@g1"), ("GROUP_GET_NUMS", "g1@S3")),
        *(("TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX"), ("GROUP_GET_FALL_SIZE", "0@S3@g1")),
        *(("COMMERCIAL_SEND_TIMES", "S3"), ("TOPIC_PUT_LATENCY", "S3"), ("BROKER_ACK_NUMS", "C1")),
        *(("SNDBCK2DLQ_TIMES", "S3@g1"), ("PRODUCER_REGISTER_TIME", "p1")),
    ):
        yield view(f"{statistic} of {key}", statistic, key)
    yield ask("without a key", 315, statsName="TOPIC_PUT_NUMS")
    yield ask("without a name", 315, statsKey="S3")


def runtime() -> Steps:
    yield create_topic("topic", "S4")
    yield send("message", "S4")
    yield found(1, pull("the message", "S4"))
    yield ask("facts of the running broker", 28)


SCENARIOS = (scenario(consume_progress), scenario(counters), scenario(runtime))
