"""Messages by key, by unique key, by tag, by offset id; entries of a consume queue."""

from typing import Any

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    Steps,
    ask,
    batch,
    consumer,
    create_topic,
    eventually,
    found,
    heartbeat,
    inner,
    keep,
    mark,
    on,
    properties,
    pull,
    scenario,
    send,
    subscription,
    without,
)


def by_key(name: str, key: str, /, **changes: Any) -> Step:
    fields = {"topic": "Q1", "key": key, "maxNum": 32, "beginTimestamp": 0}
    return ask(name, 12, **(fields | {"endTimestamp": "{now+60000}"} | changes))


def keys() -> Steps:
    yield create_topic("topic", "Q1")
    yield by_key("empty index", "k1")
    yield mark("before")
    yield send("message 0", "Q1", "m0", i=properties(KEYS="k1 k2", UNIQ_KEY="UK-1", TAGS="TagA"))
    yield mark("between")
    yield send("message 1", "Q1", "m1", i=properties(KEYS="k2  k3 ", UNIQ_KEY="UK-2", TAGS="TagB"))
    yield send("message 2", "Q1", "m2", i=properties(KEYS="schlüssel 鍵 😀", UNIQ_KEY="UK-3"))
    yield send("message 3", "Q1", "m3", i=properties(KEYS="Aa BB", UNIQ_KEY="UK-4"))
    inner_text = properties(KEYS="kb", UNIQ_KEY="UK-5")
    yield batch("batch", "Q1", inner("b0", inner_text), inner("b1", inner_text))
    yield mark("after")
    yield found(2, by_key("of a batch", "kb"))
    yield by_key("one key", "k1")
    yield by_key("key of two messages", "k2")
    yield by_key("one of two", "k2", maxNum=1)
    yield by_key("none of two", "k2", maxNum=0)
    yield by_key("fewer than none", "k2", maxNum=-1)
    yield by_key("very many", "k2", maxNum=1_000_000)
    yield by_key("both keys as one", "k1 k2")
    yield by_key("unknown key", "nope")
    yield by_key("empty key", "")
    yield by_key("key of other alphabets", "schlüssel")
    yield by_key("key of one picture", "😀")
    yield by_key("keys of the same hash", "Aa")
    yield by_key("another topic", "k1", topic="Q2")
    yield by_key("unknown topic", "k1", topic="Nowhere")
    yield by_key("empty topic", "k1", topic="")
    yield by_key("by unique key", "UK-1", _UNIQUE_KEY_QUERY="true")
    yield by_key("by unique key, one at most", "UK-5", _UNIQUE_KEY_QUERY="true", maxNum=1)
    yield by_key("by unique key, not said to be one", "UK-1")
    yield by_key("key said to be unique", "k2", _UNIQUE_KEY_QUERY="true")
    yield by_key("before all", "k1", endTimestamp="{time before}")
    yield by_key("in the range", "k2", beginTimestamp="{time before}", endTimestamp="{time after}")
    yield by_key("after all", "k1", beginTimestamp="{time after+5000}")
    yield by_key("range the wrong way round", "k1", beginTimestamp="{now}", endTimestamp=0)
    for kind in ("K", "U", "T", "x", ""):
        yield by_key(f"key, index type {kind!r}", "k1", indexType=kind)
        yield by_key(f"unique key, index type {kind!r}", "UK-1", indexType=kind)
        yield by_key(f"tag, index type {kind!r}", "TagA", indexType=kind)
    for field in ("topic", "key", "maxNum", "beginTimestamp", "endTimestamp"):
        yield without(by_key(f"without {field}", "k1"), field)
    yield by_key("number that is none", "k1", maxNum="x")


def offset_ids() -> Steps:
    yield create_topic("topic", "Q1")
    yield keep("m", send("message", "Q1", "m0", i=properties(KEYS="k1", UNIQ_KEY="UK-1")))
    yield send("another", "Q1", "m1")
    yield ask("by its offset", 33, offset="{offset m}")
    yield ask("by its offset and topic", 33, offset="{offset m}", topic="Q1")
    yield ask("by its offset and another topic", 33, offset="{offset m}", topic="Nowhere")
    yield ask("inside it", 33, offset="{offset m+5}")
    yield ask("past the end", 33, offset=1 << 40)
    yield ask("far past the end of the file", 33, offset=10_000_000)
    yield ask("negative", 33, offset=-1)
    yield ask("without an offset", 33)
    yield ask("offset that is no number", 33, offset="x")


def consume_queues() -> Steps:
    def entries(name: str, **changes: Any) -> Step:
        fields: dict[str, Any] = {"topic": "Q3", "queueId": 0, "index": 0, "count": 10}
        return ask(name, 321, **(fields | {"consumerGroup": None} | changes))

    yield create_topic("topic", "Q3", 2)
    yield entries("queue without messages")
    for number, tag in enumerate(("TagA", "", "TagB")):
        text = properties(TAGS=tag) if tag else ""
        yield send(f"message {number}", "Q3", f"m{number}", i=text)
    yield found(3, pull("messages", "Q3"))
    yield entries("all entries")
    yield entries("from the second", index=1)
    yield entries("one entry", count=1)
    yield entries("no entries", count=0)
    yield entries("past the end", index=9)
    yield entries("at the end", index=3)
    yield entries("before the start", index=-1)
    yield entries("unknown queue", queueId=7)
    yield entries("other queue", queueId=1)
    yield entries("unknown topic", topic="Nowhere")
    yield entries("for a group that is not online", consumerGroup="g1")
    yield on("b", heartbeat("heartbeat", "c1", consumer("g1", subscription("Q3", "TagA"))))
    yield entries("for a group that is online", consumerGroup="g1")
    sql = subscription("Q3", "TAGS = 'TagB'", "SQL92")
    yield on("c", heartbeat("heartbeat with SQL", "c2", consumer("g2", sql)))
    yield entries("for a group with SQL", consumerGroup="g2")
    yield entries("for a group without this topic", consumerGroup="g2", topic="TBW102")
    yield ask("without fields", 321)


def statistics_of_topics() -> Steps:
    yield create_topic("topic", "Q4", 2)
    yield ask("empty topic", 202, topic="Q4")
    yield send("message", "Q4")
    yield found(1, pull("the message", "Q4"))
    yield eventually(lambda shape: bool(shape["json"]), ask("one message", 202, topic="Q4"))
    yield create_topic("more read queues", "Q5", readQueueNums=4, writeQueueNums=2)
    yield ask("of uneven queues", 202, topic="Q5")
    yield ask("unknown topic", 202, topic="Nowhere")
    yield ask("no topic", 202)
    yield ask("empty name", 202, topic="")


SCENARIOS = (
    scenario(keys),
    scenario(offset_ids),
    scenario(consume_queues),
    scenario(statistics_of_topics),
)
