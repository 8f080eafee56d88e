"""Sends: checks, codes, automatic creation, and what is stored in the end."""

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    Steps,
    ask,
    at_version,
    binary,
    changed,
    create_group,
    create_topic,
    found,
    in_long_form,
    keep,
    on,
    oneway,
    properties,
    pull,
    scenario,
    send,
    update_config,
    without,
)

USER = properties(KEYS="k1 k2", TAGS="TagA", UNIQ_KEY="UK-1", WAIT="true")


def topic_of(name: str, topic: str) -> Step:
    return ask(name, 351, topic=topic)


def plain_sends() -> Steps:
    yield send("first message makes the topic", "T1")
    yield send("second message", "T1", "two", i=USER, h=7)
    yield in_long_form(send("code 10", "T1", "three", i=USER, h=-1))
    yield binary(send("binary header", "T1", "four", i=USER))
    yield at_version(401, send("a 4.9 client", "T1", "five", i=USER, n="brk-a"))
    yield send("for another broker name", "T1", "six", n="brk-z")
    yield oneway(send("oneway", "T1", "seven", i=USER))
    yield on("b", send("on another connection", "T1", "eight"))
    yield found(8, pull("all of them", "T1"))
    yield topic_of("the topic", "T1")


def queue_ids() -> Steps:
    yield create_topic("topic with one queue", "One", 1)
    yield send("queue -1 is any", "One", e=-1)
    yield send("queue -2 is any too", "One", e=-2)
    yield send("queue 0", "One", e=0)
    yield send("queue 1 of 1", "One", e=1)
    yield create_topic("4 read, 2 write queues", "Uneven", readQueueNums=4, writeQueueNums=2)
    yield send("queue 3 of 4 read, 2 write", "Uneven", e=3)
    yield send("queue 4 of 4 read, 2 write", "Uneven", e=4)
    yield create_topic("2 read, 4 write queues", "Uneven2", readQueueNums=2, writeQueueNums=4)
    yield send("queue 3 of 2 read, 4 write", "Uneven2", e=3)
    yield send("queue far off", "Uneven2", e=2147483647)
    yield create_topic("read only", "ReadOnly", perm=4)
    yield send("to a topic without write permission", "ReadOnly")
    yield create_topic("write only", "WriteOnly", perm=2)
    yield send("to a topic without read permission", "WriteOnly")
    yield create_topic("multi tag", "Multi", topicFilterType="MULTI_TAG")
    yield send("to a multi-tag topic", "Multi", i=properties(TAGS="a||b", UNIQ_KEY="UK-2"))
    yield found(1, pull("multi-tag message", "Multi"))


def names() -> Steps:
    yield send("empty name", "")
    yield send("blank name", "   ")
    yield send("dot in the name", "a.b")
    yield send("slash in the name", "a/b")
    yield send("letters of other alphabets", "Thema-ü")
    yield send("every allowed letter", "a-b_c|d%e9Z")
    yield send("127 letters", "n" * 127)
    yield send("128 letters", "n" * 128)
    yield send("255 letters", "n" * 255)
    yield send("256 letters", "n" * 256)
    for topic in (
        *("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"),
        *("TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"),
        *("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"),
        *("TBW102", "BenchmarkTest", "C1", "brk-a", "C1_REPLY_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
        *("rmq_sys_anything", "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_C1", "CHECKPOINT_TOPIC"),
        "rmq_sys_SYNC_BROKER_MEMBER_brk-a",
    ):
        yield send(f"to {topic}", topic)


def missing_fields() -> Steps:
    yield create_topic("topic", "T1")
    for letter in "abcdefghijkm":
        yield without(send(f"without {letter}", "T1"), letter)
    for letter in "defghj":
        yield send(f"{letter} is no number", f"Odd-{letter}", **{letter: "x"})
    yield send("k is no boolean", "T1", k="x")
    yield send("number with a plus sign", "T1", e="+0")
    yield send("number beyond 32 bits", "T1", h="4294967296")
    yield send("empty number", "T1", h="")
    yield ask("no fields at all", 310, b"x")
    yield ask("code 10 without fields", 10, b"x")
    yield without(in_long_form(send("code 10 without topic", "T1")), "topic")
    yield send("empty producer group", "T1", a="")
    yield send("unknown field", "T1", zzz="1")


def auto_creation() -> Steps:
    yield send("template TBW102, 4 queues", "A1", d=4)
    yield topic_of("A1", "A1")
    yield send("template TBW102, 100 queues", "A2", d=100)
    yield topic_of("A2", "A2")
    yield send("template TBW102, 0 queues", "A3", d=0)
    yield topic_of("A3", "A3")
    yield send("template TBW102, -5 queues", "A4", d=-5)
    yield topic_of("A4", "A4")
    yield send("template TBW102, queue 9 of 8", "A5", d=8, e=9)
    yield topic_of("A5", "A5")
    yield send("unknown template", "A6", c="Nowhere")
    yield send("empty template", "A7", c="")
    yield send("template without the inherit bit", "A8", c="A1")
    yield send("template with the name of the cluster", "A9", c="C1", d=32)
    yield topic_of("A9", "A9")
    yield send("template with the name of the broker", "A10", c="brk-a")
    yield topic_of("A10", "A10")
    yield create_topic("own template", "Template", 3, perm=7, topicFilterType="MULTI_TAG")
    yield send("own template used", "A11", c="Template", d=8)
    yield topic_of("A11", "A11")
    yield send("unit mode", "A12", k=True)
    yield topic_of("A12", "A12")
    yield send("the new topic is its own template", "A13", c="A13")


def auto_creation_switched() -> Steps:
    yield send("without auto-creation", "B1")
    yield send("by the template of the cluster", "B2", c="C1")
    yield send("by the template of the broker", "B3", c="brk-a")
    yield send("retry topic of an unknown group", "%RETRY%nobody")
    yield create_group("a group", "somebody")
    yield send("retry topic of a known group", "%RETRY%somebody")
    yield topic_of("the retry topic", "%RETRY%somebody")
    yield topic_of("TBW102", "TBW102")
    yield update_config("switch it on", autoCreateTopicEnable="true")
    yield send("after switching it on", "B4")


def auto_creation_switched_off() -> Steps:
    yield send("while it is on", "B5")
    yield update_config("switch it off", autoCreateTopicEnable="false")
    yield send("a new topic after switching it off", "B6")
    yield send("the old topic after switching it off", "B5")
    yield topic_of("TBW102 is no template any more", "TBW102")


def templates_off() -> Steps:
    yield send("template of the cluster is off", "B7", c="C1")
    yield send("template of the broker is off", "B8", c="brk-a")
    yield topic_of("topic of the cluster", "C1")
    yield topic_of("topic of the broker", "brk-a")


def sizes() -> Steps:
    yield create_topic("topic", "Sizes", 1)
    yield send("empty body", "Empty", b"")
    yield in_long_form(send("empty body by code 10", "Empty", b""))
    yield send("4 MiB", "Sizes", b"x" * (4 << 20))
    yield send("4 MiB and a byte", "Sizes", b"x" * ((4 << 20) + 1))
    yield send("longest properties", "Sizes", i=properties(a="x" * 32_600, UNIQ_KEY="UK-3"))
    yield send("properties of 32,702", "Sizes", i=properties(a="x" * 32_699))
    yield send("properties of 32,742", "Sizes", i=properties(a="x" * 32_739))
    yield send("properties of 32,767", "Sizes", i=properties(a="x" * 32_764))
    yield send("properties of 40,000", "Sizes", i=properties(a="x" * 40_000))
    yield send("properties of many bytes per letter", "Sizes", i=properties(a="ü" * 16_390))
    yield found(1, pull("first messages", "Sizes", maxMsgNums=1))


def small_limit() -> Steps:
    yield create_topic("topic", "Small")
    yield send("at the limit", "Small", b"x" * 1000)
    yield send("over the limit", "Small", b"x" * 1001)
    yield update_config("raise it", maxMessageSize="2000")
    yield send("over the old limit", "Small", b"x" * 1001)
    yield send("over the new limit", "Small", b"x" * 2001)


def stored_properties() -> Steps:
    yield create_topic("topic", "Props")
    texts = {
        "none": "",
        "no trailing separator": "KEYS\x01k\x02TAGS\x01t",
        "trailing separator": "KEYS\x01k\x02TAGS\x01t\x02",
        "empty value": "KEYS\x01\x02a\x01b\x02",
        "empty name": "\x01v\x02a\x01b\x02",
        "no separator in an entry": "junk\x02a\x01b\x02",
        "only junk": "junk",
        "twice the same name": "a\x011\x02a\x012\x02",
        "separator in the value": "a\x01b\x01c\x02",
        "other alphabets": "größe\x01naïve – 😀 世界\x02",
        "own CLUSTER": "CLUSTER\x01mine\x02",
        "own MSG_REGION and TRACE_ON": "MSG_REGION\x01mine\x02TRACE_ON\x01false\x02",
        "own POP_CK": "POP_CK\x011 2 3\x02a\x01b\x02",
        "own UNIQ_KEY": "UNIQ_KEY\x01mine\x02",
        "own CRC": "__CRC32#\x010123456789\x02",
        "WAIT": "WAIT\x01true\x02",
        "WAIT false": "WAIT\x01false\x02",
        "transient": "__RMQ.TRANSIENT.x\x01y\x02a\x01b\x02",
        "RETRY_TOPIC": "RETRY_TOPIC\x01elsewhere\x02",
        "REAL_TOPIC": "REAL_TOPIC\x01elsewhere\x02REAL_QID\x013\x02",
        "INSTANCE_ID": "INSTANCE_ID\x01ns\x02",
        "multi dispatch": "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02",
        "empty tag": "TAGS\x01\x02",
        "blanks": " a \x01 b \x02",
        "DELAY that is no number": "DELAY\x01abc\x02",
        "DELAY 0": "DELAY\x010\x02",
        "DELAY -1": "DELAY\x01-1\x02",
        "shard key": "__SHARDINGKEY\x01s\x02",
        "priority": "_SYS_MSG_PRIORITY_\x015\x02",
        "lite topic": "__LITE_TOPIC\x01l\x02",
    }
    for name, text in texts.items():
        yield send(f"properties: {name}", "Props", name, i=text)
    yield found(29, pull("what is stored", "Props", maxMsgNums=32))


def system_flags() -> Steps:
    yield create_topic("topic", "Flags")
    for flag in (1, 2, 8, 0x40, 0x80, 0xC0, 0x100, 0x301, 0x400, 0x1000, 0x7FFF0000, -1):
        yield send(f"sysFlag {flag:#x}", "Flags", f"flag {flag:#x}", f=flag)
    yield found(9, pull("what is stored", "Flags"))


def system_flags_of_transactions() -> Steps:
    for flag in (4, 12):
        yield send(f"sysFlag {flag:#x}", f"Flags{flag}", "half", f=flag)
        yield send(f"a message after {flag:#x}", f"Flags{flag}", "last")
        yield pull(f"what is stored of {flag:#x}", f"Flags{flag}")


def system_flags_of_ipv6() -> Steps:
    yield create_topic("topic", "Hosts")
    yield send("sysFlag 0x10", "Hosts", "born", f=0x10, i=properties(UNIQ_KEY="UK-4"))
    yield send("a message after it", "Hosts", "after")


def reconsume_times() -> Steps:
    yield create_topic("topic", "Times")
    yield send("times 3", "Times", "three", j=3, l=5)
    yield send("times beyond the limit", "Times", "nine", j=9, l=5)
    yield send("negative times", "Times", "minus", j=-1)
    yield found(3, pull("stored times", "Times"))


def retry_topics() -> Steps:
    yield send("group unknown, created on demand", "%RETRY%auto", "m0")
    yield create_group("group", "g1", retryMaxTimes=3)
    yield send("within the group's limit", "%RETRY%g1", "m1", j=2)
    yield send("at the group's limit", "%RETRY%g1", "m2", j=3)
    yield send("beyond the group's limit", "%RETRY%g1", "m3", j=4, i=properties(DELAY=3))
    yield send("within its own limit", "%RETRY%g1", "m4", j=4, l=5)
    yield send("at its own limit", "%RETRY%g1", "m5", j=5, l=5)
    yield send("beyond its own limit", "%RETRY%g1", "m6", j=6, l=5, h=9)
    yield send("own limit 0", "%RETRY%g1", "m7", j=0, l=0)
    yield send("own limit -1", "%RETRY%g1", "m8", j=17, l=-1)
    yield send("queue 1 of 1", "%RETRY%g1", "m9", e=1)
    yield found(3, pull("dead letters", "%DLQ%g1"))
    yield topic_of("the retry topic", "%RETRY%g1")
    yield topic_of("the dead-letter topic", "%DLQ%g1")
    yield send("to the dead-letter topic itself", "%DLQ%g1", "m10")
    yield send("to an unknown dead-letter topic", "%DLQ%g9", "m11")
    yield send("unit mode retry", "%RETRY%g2", "m12", k=True)
    yield topic_of("the unit mode retry topic", "%RETRY%g2")
    yield create_group("no retry queues", "g3", retryQueueNums=0)
    yield send("to a retry topic without queues", "%RETRY%g3", "m13")
    yield create_group("four retry queues", "g4", retryQueueNums=4)
    yield send("to a retry topic of four queues", "%RETRY%g4", "m14", e=3)
    yield topic_of("retry topic of four queues", "%RETRY%g4")
    yield send("long retry topic", "%RETRY%" + "g" * 120, "m15")
    yield send("retry topic of 128 letters", "%RETRY%" + "g" * 121, "m16")
    yield send("retry topic without a group", "%RETRY%", "m17")


def permissions() -> Steps:
    yield create_topic("ordinary topic", "Plain")
    yield create_topic("ordered topic", "Ordered", order=True)
    yield update_config("read only", brokerPermission="4")
    yield send("to an ordinary topic", "Plain")
    yield send("to an ordered topic", "Ordered")
    yield send("to a new topic", "Newcomer")
    yield update_config("read and write again", brokerPermission="6")
    yield send("afterwards", "Ordered")


def not_yet() -> Steps:
    yield send("before the broker accepts messages", "T1")
    yield in_long_form(send("code 10, before the broker accepts", "T1"))


def transactions_refused() -> Steps:
    yield send("half message", "T1", i=properties(TRAN_MSG="true", PGROUP="p1"), f=4)


def answers_without_trace() -> Steps:
    yield send("region and trace", "T1")
    yield send("an error", "a.b")


def duplicate_properties_of_answers() -> Steps:
    yield keep("m", send("with a key of its own", "T1", i=properties(UNIQ_KEY="UK-9")))
    yield ask("by its id", 33, offset="{offset m}")
    yield changed(send("language of another client", "T1"), version=0)


SCENARIOS = (
    scenario(plain_sends),
    scenario(queue_ids),
    scenario(names),
    scenario(missing_fields),
    scenario(auto_creation),
    scenario(auto_creation_switched, autoCreateTopicEnable="false"),
    scenario(auto_creation_switched_off),
    scenario(templates_off, clusterTopicEnable="false", brokerTopicEnable="false"),
    scenario(sizes),
    scenario(small_limit, maxMessageSize="1000"),
    scenario(stored_properties),
    scenario(system_flags),
    scenario(system_flags_of_transactions),
    scenario(system_flags_of_ipv6),
    scenario(reconsume_times),
    scenario(retry_topics),
    scenario(permissions),
    scenario(not_yet, startAcceptSendRequestTimeStamp="4102444800000"),
    scenario(transactions_refused, rejectTransactionMessage="true"),
    scenario(answers_without_trace, traceOn="false", regionId="Moon"),
    scenario(duplicate_properties_of_answers),
)
