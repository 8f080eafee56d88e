"""Administration: topics, groups, configuration, clean-up, and codes that no broker knows."""

from typing import Any

from tools.broker_scenarios.steps import (
    Steps,
    ask,
    ask_json,
    create_group,
    create_topic,
    found,
    properties,
    pull,
    scenario,
    send,
    update_config,
    without,
)


def topics() -> Steps:
    yield ask("all topics at the start", 21)
    yield ask("system topics", 305)
    yield create_topic("create", "T1", 3)
    yield ask("the topic", 351, topic="T1")
    yield ask("the topic, local only", 351, topic="T1", lo=True)
    yield ask("an unknown topic", 351, topic="Nowhere")
    yield ask("no topic", 351)
    yield create_topic("the same again", "T1", 3)
    yield create_topic("other queues", "T1", 5)
    yield create_topic("fewer queues", "T1", 1, perm=4)
    yield ask("the topic after changes", 351, topic="T1")
    yield create_topic("ordered", "T2", order=True)
    yield ask("the ordered topic", 351, topic="T2")
    yield create_topic("multi tag, unit", "T3", topicFilterType="MULTI_TAG", topicSysFlag=1)
    yield ask("the multi-tag topic", 351, topic="T3")
    yield create_topic("attributes", "T4", attributes="+message.type=DELAY")
    yield ask("the topic with attributes", 351, topic="T4")
    yield create_topic("more attributes", "T4", attributes="+cleanup.policy=COMPACTION")
    yield create_topic("an attribute less", "T4", attributes="-message.type")
    yield ask("the topic with other attributes", 351, topic="T4")
    yield create_topic("unknown attribute", "T5", attributes="+nope=1")
    yield create_topic("attribute with a bad value", "T5", attributes="+message.type=NOPE")
    yield create_topic("attribute that cannot change", "T4", attributes="+queue.type=BatchCQ")
    yield create_topic("attribute without a sign", "T5", attributes="message.type=FIFO")
    yield create_topic("removed attribute that is not there", "T5", attributes="-message.type")
    for name, topic in (
        *(("empty name", ""), ("blank name", " "), ("dot", "a.b"), ("127 letters", "n" * 127)),
        *(("128 letters", "n" * 128), ("system topic", "TBW102"), ("cluster name", "C1")),
        *(("prefix of the system", "rmq_sys_x"), ("retry topic", "%RETRY%g1")),
        *(("dead letters", "%DLQ%g1"), ("schedule topic", "SCHEDULE_TOPIC_XXXX")),
    ):
        yield create_topic(f"create: {name}", topic)
    for field in ("topic", "defaultTopic", "readQueueNums", "writeQueueNums", "perm", "order"):
        yield without(create_topic(f"create without {field}", "T6"), field)
    yield without(create_topic("create without a filter type", "T6"), "topicFilterType")
    yield create_topic("unknown filter type", "T6", topicFilterType="NOPE")
    yield create_topic("no queues", "T7", 0)
    yield create_topic("negative queues", "T8", -1)
    yield create_topic("permission 0", "T9", perm=0)
    yield create_topic("permission 9", "T9", perm=9)
    yield create_topic("permission 7", "T9", perm=7)
    yield create_topic("permission 1", "T9", perm=1)
    yield create_topic("permission 3", "T9", perm=3)
    yield ask("the topic of many permissions", 351, topic="T9")


def lists_of_topics() -> Steps:
    def config(name: str, queues: int = 2, **changes: Any) -> dict[str, Any]:
        entry = {"attributes": {}, "order": False, "perm": 6, "readQueueNums": queues}
        entry |= {"topicFilterType": "SINGLE_TAG", "topicName": name, "topicSysFlag": 0}
        return entry | {"writeQueueNums": queues} | changes

    yield ask_json("two topics", 18, {"topicConfigList": [config("T1"), config("T2", 3)]})
    yield ask("the second", 351, topic="T2")
    yield ask_json("one is bad", 18, {"topicConfigList": [config("T3"), config("a.b")]})
    yield ask("the good one", 351, topic="T3")
    yield ask_json("one is a system topic", 18, {"topicConfigList": [config("TBW102")]})
    yield ask_json("none", 18, {"topicConfigList": []})
    yield ask_json("the same again", 18, {"topicConfigList": [config("T1"), config("T2", 3)]})
    yield ask_json("without a list", 18, {})
    yield ask("without a body", 18)


def deletion_of_topics() -> Steps:
    yield create_topic("topic", "T1")
    yield create_group("group", "g1")
    yield send("message", "T1")
    yield found(1, pull("the message", "T1"))
    yield ask("commit", 15, consumerGroup="g1", topic="T1", queueId=0, commitOffset=1)
    yield ask("delete", 215, topic="T1")
    yield ask("it is gone", 351, topic="T1")
    yield pull("pull of what is gone", "T1")
    yield ask("max offset of what is gone", 30, topic="T1", queueId=0)
    yield create_topic("again", "T1")
    yield ask("committed offset is gone", 14, consumerGroup="g1", topic="T1", queueId=0)
    yield send("message after it", "T1", "new")
    yield found(1, pull("the new message", "T1"))
    yield ask("delete an unknown topic", 215, topic="Nowhere")
    yield ask("delete a system topic", 215, topic="TBW102")
    yield ask("delete the schedule topic", 215, topic="SCHEDULE_TOPIC_XXXX")
    yield ask("delete an empty name", 215, topic="")
    yield ask("delete a bad name", 215, topic="a.b")
    yield ask("delete no topic", 215)


def groups() -> Steps:
    yield ask("all groups at the start", 201)
    yield create_group("create", "g1")
    yield ask("the group", 352, group="g1")
    yield create_group("change", "g1", retryMaxTimes=3, consumeEnable=False, brokerId=2)
    yield ask("the changed group", 352, group="g1")
    yield ask("an unknown group", 352, group="nobody")
    yield ask("no group", 352)
    yield ask_json("only a name", 200, {"groupName": "g2"})
    yield ask("the group of only a name", 352, group="g2")
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1, "max": 9}}
    more: dict[str, Any] = {"consumeMessageOrderly": True, "groupSysFlag": 1}
    more |= {"groupRetryPolicy": policy, "consumeTimeoutMinute": 3, "attributes": {}}
    yield create_group("with everything", "g3", **more)
    yield ask("the group with everything", 352, group="g3")
    entry = {"topic": "T1", "expressionType": "TAG", "expression": "*", "version": 1}
    yield create_group("with subscriptions", "g4", subscriptionDataSet=[entry])
    yield ask("the group with subscriptions", 352, group="g4")
    yield create_group("with attributes", "g5", attributes={"+priority.factor": "50"})
    yield ask("the group with attributes", 352, group="g5")
    yield create_group("unknown attribute", "g6", attributes={"+nope": "1"})
    yield create_group("empty name", "")
    yield create_group("name with a slash", "a/b")
    yield create_group("name of 120 letters", "g" * 120)
    yield create_group("name of 121 letters", "g" * 121)
    yield create_group("name of 255 letters", "g" * 255)
    yield create_group("name of 256 letters", "g" * 256)
    yield create_group("negative retries", "g7", retryQueueNums=-1, retryMaxTimes=-1)
    yield ask("the group of negative retries", 352, group="g7")
    yield ask("create without a body", 200)
    yield ask_json("create without a name", 200, {"retryMaxTimes": 3})
    yield ask("create from nonsense", 200, b"{nonsense")
    two = [{"groupName": "h1"}, {"groupName": "h2", "retryMaxTimes": 1}]
    yield ask_json("two groups", 225, {"groupConfigList": two})
    yield ask("the second of two", 352, group="h2")
    yield ask_json("no groups", 225, {"groupConfigList": []})
    yield ask_json("without a list", 225, {})
    yield ask("list without a body", 225)


def deletion_of_groups() -> Steps:
    yield create_topic("topic", "T1")
    for group in ("g1", "g2", "g3"):
        yield create_group(f"group {group}", group)
        yield ask(
            f"commit of {group}", 15, consumerGroup=group, topic="T1", queueId=0, commitOffset=1
        )
    yield ask("delete", 207, groupName="g1")
    yield ask("it is gone", 352, group="g1")
    yield ask("its offset", 14, consumerGroup="g1", topic="T1", queueId=0, setZeroIfNotFound=False)
    yield ask("delete with offsets", 207, groupName="g2", cleanOffset=True)
    yield ask("offset gone", 14, consumerGroup="g2", topic="T1", queueId=0, setZeroIfNotFound=False)
    yield ask("delete as 4.9 does", 207, groupName="g3", removeOffset=True)
    yield ask(
        "offset of 4.9", 14, consumerGroup="g3", topic="T1", queueId=0, setZeroIfNotFound=False
    )
    yield ask("delete an unknown group", 207, groupName="nobody")
    yield ask("delete no group", 207)
    yield ask("delete a built-in group", 207, groupName="TOOLS_CONSUMER")
    yield ask("a built-in group", 352, group="TOOLS_CONSUMER")


def forbidden() -> Steps:
    yield create_topic("topic", "T1")
    yield create_group("group", "g1")
    yield ask("ask only", 353, group="g1", topic="T1")
    yield ask("forbid", 353, group="g1", topic="T1", readable=False)
    yield ask("ask after forbidding", 353, group="g1", topic="T1")
    yield ask("all groups", 201)
    yield ask("allow", 353, group="g1", topic="T1", readable=True)
    yield ask("ask after allowing", 353, group="g1", topic="T1")
    yield ask("unknown group", 353, group="nobody", topic="T1", readable=False)
    yield ask("unknown topic", 353, group="g1", topic="Nowhere", readable=False)
    yield ask("no group", 353, topic="T1")
    yield ask("no topic", 353, group="g1")


def configuration() -> Steps:
    yield ask("the configuration", 26)
    yield update_config("a change", maxMessageSize="5000000", traceOn="false")
    yield ask("the configuration after it", 26)
    yield update_config("unknown key", nonsense="1")
    yield update_config("unreadable number", maxMessageSize="x")
    yield update_config("unreadable permission", brokerPermission="9")
    for key in ("brokerConfigPath", "rocketmqHome", "configBlackList"):
        yield update_config(f"key that may not change: {key}", **{key: "/elsewhere"})
    yield ask("no body", 25)
    yield ask("only blanks", 25, b"  \n")
    yield ask("a comment", 25, b"# nothing\n")
    yield ask("no value", 25, b"traceOn\n")
    yield ask("bad escape", 25, b"regionId=\\u12\n")
    yield ask("bytes that are no text", 25, b"regionId=\xff\xfe\n")
    yield ask("the configuration in the end", 26)


def cleaning() -> Steps:
    yield create_topic("topic", "T1")
    yield send("message", "T1")
    yield ask("clean expired queues", 306)
    yield ask("clean unused topics", 316)
    yield ask("delete expired files", 329)
    yield found(1, pull("the message is still there", "T1"))
    yield ask("topic is still there", 351, topic="T1")
    yield ask("replication", 907)


def unknown_codes() -> Steps:
    for code in (
        *(0, 1, 9, 13, 16, 19, 20, 22, 23, 24, 27, 43, 44, 45, 47, 50, 51, 52, 53, 54, 60, 61),
        *(99, 100, 101, 102, 103, 104, 105, 106, 205, 206, 209, 210, 211, 212, 213, 214, 216, 217),
        *(218, 219, 220, 221, 224, 301, 302, 304, 311, 312, 313, 318, 319, 322, 323, 326, 327),
        *(330, 340, 341, 342, 344, 346, 350, 354, 355, 400, 401, 402, 513, 901, 902, 904, 905),
        *(906, 908, 1001, 1007, 2001, 2002, 2003, 2004, 3001, 3005, 5001, 32767, 200049),
        *(200055, 200056, 200070, 200074, -1, 2147483647),
    ):
        yield ask(f"code {code}", code)


def clone_and_delay() -> Steps:
    yield create_topic("topic", "T1")
    yield send("delayed message", "T1", i=properties(DELAY="1", UNIQ_KEY="UK-1"))
    yield found(1, pull("delivered", "T1"))
    yield ask("delay offsets", 45)
    yield ask("consumer offsets", 43)


SCENARIOS = (
    scenario(topics),
    scenario(lists_of_topics),
    scenario(deletion_of_topics),
    scenario(groups),
    scenario(deletion_of_groups),
    scenario(forbidden),
    scenario(configuration),
    scenario(cleaning),
    scenario(unknown_codes),
    scenario(clone_and_delay, messageDelayLevel="1s 2s"),
)
