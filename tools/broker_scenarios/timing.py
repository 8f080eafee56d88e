"""Timed messages: how a time is asked for, what is refused, what is delivered, and recall."""

from base64 import urlsafe_b64encode
from typing import Any

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    Steps,
    ask,
    batch,
    binary,
    create_topic,
    eventually,
    found,
    has_code,
    in_long_form,
    inner,
    keep,
    mark,
    properties,
    pull,
    scenario,
    send,
    update_config,
    without,
)

TIMER_TOPIC = "rmq_sys_wheel_timer"
SOON = "{now+1500}"


def recall(name: str, handle: str, /, **changes: Any) -> Step:
    return ask(
        name, 370, **({"producerGroup": "p1", "topic": "T1", "recallHandle": handle} | changes)
    )


def handle(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


def delivered() -> Steps:
    yield create_topic("topic", "T1", 2)
    text = properties(KEYS="k1", TAGS="TagA", UNIQ_KEY="UK-1", WAIT="true", TIMER_DELIVER_MS=SOON)
    yield send("at a time", "T1", "m0", e=1, i=text, h=3)
    yield found(1, pull("while it waits", TIMER_TOPIC))
    yield pull("by tag while it waits", TIMER_TOPIC, subscription="TagA")
    yield found(1, pull("delivered at its time", "T1", queueId=1))
    yield ask(
        "by its key while it waited",
        12,
        topic=TIMER_TOPIC,
        key="k1",
        maxNum=32,
        beginTimestamp=0,
        endTimestamp="{now+60000}",
        _UNIQUE_KEY_QUERY=False,
    )
    yield send("after milliseconds", "T1", "m1", i=properties(UNIQ_KEY="UK-2", TIMER_DELAY_MS=300))
    yield found(1, pull("delivered after milliseconds", "T1"))
    yield in_long_form(
        send("after seconds", "T1", "m2", i=properties(UNIQ_KEY="UK-3", TIMER_DELAY_SEC=1))
    )
    yield found(2, pull("delivered after seconds", "T1"))
    yield binary(
        send("binary header", "T1", "m3", i=properties(UNIQ_KEY="UK-4", TIMER_DELAY_MS=300))
    )
    yield found(3, pull("delivered, binary", "T1"))


def kinds_of_times() -> Steps:
    yield create_topic("topic", "T1")
    texts = {
        "no number": properties(TIMER_DELIVER_MS="soon"),
        "a broken number of seconds": properties(TIMER_DELAY_SEC="1.5"),
        "a broken number of milliseconds": properties(TIMER_DELAY_MS="1e3"),
        "64 bits and more": properties(TIMER_DELIVER_MS="9223372036854775808"),
        "the last millisecond of all": properties(TIMER_DELIVER_MS="9223372036854775807"),
        "seconds that overflow": properties(TIMER_DELAY_SEC="9223372036854775807"),
        "milliseconds that overflow": properties(TIMER_DELAY_MS="9223372036854775807"),
        "too far": properties(TIMER_DELAY_SEC="259201"),
        "a time that is over": properties(UNIQ_KEY="UK-5", TIMER_DELIVER_MS="1700000000000"),
        "a delay below zero": properties(UNIQ_KEY="UK-6", TIMER_DELAY_MS="-5"),
        "a delay of zero": properties(UNIQ_KEY="UK-7", TIMER_DELAY_SEC="0"),
        "seconds win": properties(UNIQ_KEY="UK-8", TIMER_DELAY_SEC="0", TIMER_DELAY_MS="soon"),
        "milliseconds win": properties(UNIQ_KEY="UK-9", TIMER_DELAY_MS="0", TIMER_DELIVER_MS="x"),
        "a time that is set already": properties(
            UNIQ_KEY="UK-10", TIMER_DELAY_MS="100000", TIMER_OUT_MS="7"
        ),
        "an empty time": "TIMER_DELIVER_MS\x01\x02UNIQ_KEY\x01UK-11\x02",
        "a deletion of nothing": properties(TIMER_DEL_UNIQKEY="UK-1", TIMER_DELAY_MS="0"),
        "a deletion without a time": properties(UNIQ_KEY="UK-12", TIMER_DEL_UNIQKEY="UK-1"),
        "a plus sign": properties(TIMER_DELAY_MS="+60000"),
    }
    for name, text in texts.items():
        yield send(f"time: {name}", "T1", name, i=text)
    yield found(10, pull("what is stored at once", "T1"))
    yield send(
        "a level wins",
        "T1",
        "level",
        i=properties(
            UNIQ_KEY="UK-13", DELAY=18, TIMER_DELAY_SEC=9, TIMER_DELAY_MS=9, TIMER_DELIVER_MS="x"
        ),
    )
    yield found(1, pull("the level's message", "SCHEDULE_TOPIC_XXXX", queueId=17))
    yield send(
        "level 0 does not",
        "T1",
        "level 0",
        i=properties(UNIQ_KEY="UK-14", DELAY=0, TIMER_DELAY_MS=200),
    )
    yield found(2, pull("plus sign and level 0 in the timer's topic", TIMER_TOPIC))
    yield send(
        "to a retry topic", "%RETRY%g1", "retry", i=properties(UNIQ_KEY="UK-15", TIMER_DELAY_MS=200)
    )
    yield found(1, pull("from the retry topic", "%RETRY%g1"))
    yield found(1, pull("level 0 delivered", "T1", 10))
    yield batch("in a batch", "T1", inner("b", properties(UNIQ_KEY="UK-16", TIMER_DELAY_MS=500)))
    yield found(1, pull("what the batch stored", "T1", 11))


def wheel_switched_off() -> Steps:
    yield create_topic("topic", "T1")
    yield send("timed", "T1", i=properties(TIMER_DELAY_MS=100))
    yield send("a time that is over", "T1", i=properties(TIMER_DELIVER_MS=1))
    yield ask("checkpoint", 60)
    yield ask("metrics", 61)


def short_maximum() -> Steps:
    yield create_topic("topic", "T1")
    yield send("within it", "T1", i=properties(UNIQ_KEY="UK-1", TIMER_DELAY_MS=9_000))
    yield send("beyond it", "T1", i=properties(TIMER_DELAY_MS=11_000))
    yield update_config("a higher one", timerMaxDelaySec="20")
    yield send("beyond the old one", "T1", i=properties(UNIQ_KEY="UK-2", TIMER_DELAY_MS=11_000))


def figures() -> Steps:
    yield create_topic("topic", "T1")
    yield send("a waiting message", "T1", i=properties(UNIQ_KEY="UK-1", TIMER_DELAY_SEC=60))
    yield send("another one", "T1", i=properties(UNIQ_KEY="UK-2", TIMER_DELAY_SEC=61))

    def waits(shape: dict[str, Any]) -> bool:
        return bool(shape["json"]["timingCount"].get("T1", {}).get("count") == 2)

    yield eventually(waits, ask("metrics", 61))


def recalled() -> Steps:
    yield create_topic("topic", "T1")
    yield keep(
        "m",
        send(
            "a message to recall", "T1", "m0", i=properties(UNIQ_KEY="UK-1", TIMER_DELIVER_MS=SOON)
        ),
    )
    yield send(
        "a message that stays",
        "T1",
        "m1",
        i=properties(UNIQ_KEY="UK-2", TIMER_DELIVER_MS="{now+1600}"),
    )
    yield recall("recalled in time", "{handle m}")
    yield recall("recalled again", "{handle m}")
    yield found(4, pull("markers in the timer's topic", TIMER_TOPIC))
    yield found(1, pull("only the other is delivered", "T1"))
    yield recall("recalled too late", "{handle m}")
    yield send("last", "T1", "last", i=properties(UNIQ_KEY="UK-3", TIMER_DELAY_MS=500))
    yield found(2, pull("nothing else came", "T1"))


def recalls_refused() -> Steps:
    yield create_topic("topic", "T1")
    yield create_topic("another topic", "T2")
    yield keep(
        "m", send("a message", "T1", "m0", i=properties(UNIQ_KEY="UK-1", TIMER_DELAY_SEC=60))
    )
    yield recall("of an unknown topic", "{handle m}", topic="Nowhere")
    yield recall("of another topic", "{handle m}", topic="T2")
    yield recall("not base64", "!!!")
    yield recall("empty", "")
    yield recall("no handle inside", handle("something else"))
    yield recall("another version", handle("v2 T1 brk-a 4102444800000 UK-1"))
    yield recall("four parts", handle("v1 T1 brk-a 4102444800000"))
    yield recall("six parts", handle("v1 T1 brk-a 1700000000000 UK-1 more"))
    yield recall("of another broker", handle("v1 T1 brk-z 4102444800000 UK-1"))
    yield recall("of a time that is over", handle("v1 T1 brk-a 1700000000000 UK-1"))
    yield recall("of a time too far", handle("v1 T1 brk-a 4102444800000 UK-1"))
    yield recall("of no time", handle("v1 T1 brk-a soon UK-1"))
    yield without(recall("without a handle", "x"), "recallHandle")
    yield without(recall("without a topic", "{handle m}"), "topic")
    yield without(recall("without a group", "{handle m}"), "producerGroup")
    yield recall("an empty topic", "{handle m}", topic="")
    yield update_config("read only", brokerPermission="4")
    yield recall("while the broker is read only", "{handle m}")
    yield update_config("not then", allowRecallWhenBrokerNotWriteable="false")
    yield recall("while that is forbidden", "{handle m}")
    yield update_config("read and write again", brokerPermission="6")
    yield update_config("no recalls", recallMessageEnable="false")
    yield recall("switched off", "{handle m}")


def recall_not_enabled() -> Steps:
    yield create_topic("topic", "T1")
    yield keep(
        "m", send("a message", "T1", "m0", i=properties(UNIQ_KEY="UK-1", TIMER_DELAY_SEC=60))
    )
    yield recall("by default", "{handle m}")


def recall_with_topics() -> Steps:
    yield create_topic("topic", "T1")
    yield keep(
        "m",
        send(
            "a message to recall", "T1", "m0", i=properties(UNIQ_KEY="UK-1", TIMER_DELIVER_MS=SOON)
        ),
    )
    yield recall("recalled", "{handle m}")
    yield found(2, pull("marker in the timer's topic", TIMER_TOPIC))
    yield send("last", "T1", "last", i=properties(UNIQ_KEY="UK-3", TIMER_DELIVER_MS="{now+2000}"))
    yield found(1, pull("only the last is delivered", "T1"))


def rolled() -> Steps:
    yield create_topic("topic", "T1")
    yield send(
        "beyond the window",
        "T1",
        "m0",
        i=properties(UNIQ_KEY="UK-1", TIMER_DELIVER_MS="{now+2500}"),
    )
    yield found(3, pull("put again while it waits", TIMER_TOPIC))
    yield found(1, pull("delivered", "T1"))


def crowded() -> Steps:
    yield create_topic("topic", "T1")
    at = "{time t+9050}"
    yield mark("t")
    for number in range(2):
        yield send(
            f"message {number}", "T1", i=properties(UNIQ_KEY=f"UK-{number}", TIMER_DELIVER_MS=at)
        )
    yield has_code(1, send("one too many", "T1", i=properties(TIMER_DELIVER_MS=at)))


FINE = {"timerPrecisionMs": "100"}

SCENARIOS = (
    scenario(delivered, **FINE),
    scenario(kinds_of_times, **FINE),
    scenario(wheel_switched_off, timerWheelEnable="false"),
    scenario(short_maximum, timerMaxDelaySec="10"),
    scenario(figures),
    scenario(recalled, recallMessageEnable="true", **FINE),
    scenario(recalls_refused, recallMessageEnable="true"),
    scenario(recall_not_enabled),
    scenario(
        recall_with_topics, recallMessageEnable="true", appendTopicForTimerDeleteKey="true", **FINE
    ),
    scenario(rolled, timerRollWindowSlot="10", **FINE),
    scenario(crowded, timerCongestNumEachSlot="1", **FINE),
)
