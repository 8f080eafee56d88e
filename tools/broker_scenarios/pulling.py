"""Pulls: every check and every row of the table of offsets, without waiting."""

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    COMMIT,
    LITE,
    SUB_VERSION,
    SUBSCRIPTION,
    Steps,
    ask,
    at_version,
    binary,
    consumer,
    create_group,
    create_topic,
    found,
    heartbeat,
    on,
    properties,
    pull,
    scenario,
    send,
    subscription,
    update_config,
    without,
)


def offsets_and_codes() -> Steps:
    yield create_topic("topic", "P1", 2)
    yield pull("empty queue at 0", "P1", 0)
    yield pull("empty queue at 5", "P1", 5)
    yield pull("empty queue at -1", "P1", -1)
    for number in range(3):
        yield send(f"message {number}", "P1", f"m{number}")
    yield found(3, pull("from the start", "P1", 0))
    yield pull("from the middle", "P1", 1)
    yield pull("at the end", "P1", 3)
    yield pull("past the end", "P1", 4)
    yield pull("far past the end", "P1", 1 << 40)
    yield pull("before the start", "P1", -1)
    yield pull("long before the start", "P1", -(1 << 40))
    yield pull("the other queue is empty", "P1", 0, queueId=1)
    yield pull("the other queue at 7", "P1", 7, queueId=1)
    yield pull("queue 2 of 2", "P1", 0, queueId=2)
    yield pull("queue -1", "P1", 0, queueId=-1)
    yield pull("lite pull", "P1", 0, code=361, sysFlag=SUBSCRIPTION | LITE)
    yield pull("lite pull at the end", "P1", 3, code=361, sysFlag=SUBSCRIPTION | LITE)
    yield pull("lite pull past the end", "P1", 9, code=361, sysFlag=SUBSCRIPTION | LITE)
    yield binary(pull("binary header", "P1", 1))
    yield at_version(401, pull("a 4.9 client", "P1", 1, bname="brk-a"))


def counts() -> Steps:
    yield create_topic("topic", "P2")
    for number in range(36):
        yield send(f"message {number}", "P2", f"m{number}")
    yield found(32, pull("as many as are given", "P2", maxMsgNums=64))
    yield pull("one", "P2", maxMsgNums=1)
    yield pull("none", "P2", maxMsgNums=0)
    yield pull("fewer than none", "P2", maxMsgNums=-1)
    yield pull("very many", "P2", maxMsgNums=2147483647)
    yield pull("the last ones", "P2", 30, maxMsgNums=10)
    yield pull("with a limit of bytes", "P2", maxMsgBytes=100)
    for number in range(4):
        yield send(f"100 KiB, {number}", "P2", b"x" * 102_400)
    yield found(2, pull("as many bytes as are given", "P2", 36, maxMsgNums=32))
    yield send("1 MiB", "P2", b"x" * (1 << 20))
    yield found(1, pull("one that is larger than the limit", "P2", 40))


def refusals() -> Steps:
    yield create_topic("topic", "P3")
    yield pull("unknown topic", "Nowhere")
    yield pull("empty topic", "")
    yield pull("name with a slash", "a/b")
    yield pull("system topic", "TBW102")
    yield pull("schedule topic", "SCHEDULE_TOPIC_XXXX")
    yield pull("half topic", "RMQ_SYS_TRANS_HALF_TOPIC")
    yield pull("op topic", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
    yield pull("group made on demand", "P3", consumerGroup="fresh")
    yield pull("empty group", "P3", consumerGroup="")
    yield pull("group with a slash", "P3", consumerGroup="a/b")
    yield pull("group of 256 letters", "P3", consumerGroup="g" * 256)
    yield create_group("disabled group", "off", consumeEnable=False)
    yield pull("disabled group pulls", "P3", consumerGroup="off")
    yield create_topic("write only", "Deaf", perm=2)
    yield pull("topic without read permission", "Deaf")
    for field in (
        *("consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag"),
        *("commitOffset", "suspendTimeoutMillis", "subscription", "subVersion"),
    ):
        yield without(pull(f"without {field}", "P3"), field)
    yield pull("offset that is no number", "P3", "x")
    yield update_config("write only broker", brokerPermission="2")
    yield pull("broker without read permission", "P3")


def groups_not_created() -> Steps:
    yield create_topic("topic", "P4")
    yield pull("unknown group", "P4", consumerGroup="nobody")
    yield pull("system group", "P4", consumerGroup="CID_RMQ_SYS_x")
    yield pull("built-in group", "P4", consumerGroup="TOOLS_CONSUMER")


def subscriptions_of_heartbeats() -> Steps:
    yield create_topic("topic", "P5")
    yield create_topic("other topic", "P5b")
    yield send("message", "P5", "m", i=properties(TAGS="TagA"))
    yield found(1, pull("with a subscription in the pull", "P5"))
    yield pull("group that is not online", "P5", sysFlag=0)
    yield on("b", heartbeat("heartbeat", "c1", consumer("g1", subscription("P5", "TagA"))))
    yield pull("group that is online", "P5", sysFlag=0)
    yield pull("with an older version", "P5", sysFlag=0, subVersion=SUB_VERSION - 1)
    yield pull("with a newer version", "P5", sysFlag=0, subVersion=SUB_VERSION + 1)
    yield pull("topic that is not subscribed to", "P5b", sysFlag=0)
    yield pull("subscription in the pull wins", "P5", subscription="TagB")
    yield create_group("no broadcasting", "g2", consumeBroadcastEnable=False)
    loud = consumer("g2", subscription("P5"), messageModel="BROADCASTING")
    yield on("b", heartbeat("broadcasting heartbeat", "c1", loud))
    yield pull("broadcasting that is not allowed", "P5", consumerGroup="g2", sysFlag=0)
    yield pull("broadcasting, subscription in the pull", "P5", consumerGroup="g2")
    loud = consumer("g3", subscription("P5"), messageModel="BROADCASTING")
    yield on("b", heartbeat("another broadcasting heartbeat", "c1", loud))
    yield pull("broadcasting that is allowed", "P5", consumerGroup="g3", sysFlag=0)


def tags() -> Steps:
    yield create_topic("topic", "P6")
    for number, tag in enumerate(("TagA", "TagB", "", "TagC", "TagA", "Aa", "BB")):
        text = properties(TAGS=tag) if tag else ""
        yield send(f"message {number}", "P6", f"{number} {tag}", i=text)
    yield found(7, pull("all", "P6"))
    for text in (
        *("TagA", "TagA || TagB", "TagA||TagC", "||", " ", "*", "Nothing", "TagA || *", "Aa"),
        *("|| TagB ||", "TagA | TagB", "a b"),
    ):
        yield pull(f"tags {text!r}", "P6", subscription=text)
    yield pull("empty tags", "P6", subscription="")
    yield pull("tags with TAG named", "P6", subscription="TagB", expressionType="TAG")
    yield pull("unknown kind of expression", "P6", subscription="TagB", expressionType="NOPE")
    yield pull("empty kind of expression", "P6", subscription="TagB", expressionType="")
    yield pull("class filter", "P6", sysFlag=SUBSCRIPTION | 8)
    yield pull("filter from the end of matches", "P6", 5, subscription="TagA")
    yield pull("filter, one at a time", "P6", 1, subscription="TagA", maxMsgNums=1)


def commits_with_pulls() -> Steps:
    def committed(name: str) -> Step:
        return ask(name, 14, consumerGroup="g1", topic="P7", queueId=0, setZeroIfNotFound=False)

    yield create_topic("topic", "P7")
    for number in range(3):
        yield send(f"message {number}", "P7", f"m{number}")
    yield found(3, pull("without commit", "P7", commitOffset=1))
    yield committed("nothing committed")
    yield pull("with commit", "P7", 2, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=2)
    yield committed("2 committed")
    yield pull("commit of less", "P7", 2, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=1)
    yield committed("1 committed")
    yield pull("commit, nothing found", "P7", 3, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=3)
    yield committed("3 committed")
    yield pull("commit, offset moved", "P7", 9, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=9)
    yield committed("9 committed")
    yield pull("negative commit", "P7", 0, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=-5)
    yield committed("after a negative commit")


def permissions_of_groups() -> Steps:
    yield create_topic("topic", "P8")
    yield send("message", "P8")
    yield found(1, pull("allowed", "P8"))
    yield ask("forbid", 353, group="g1", topic="P8", readable=False)
    yield pull("forbidden", "P8")
    yield ask("allow again", 353, group="g1", topic="P8", readable=True)
    yield pull("allowed again", "P8")


SCENARIOS = (
    scenario(offsets_and_codes),
    scenario(counts),
    scenario(refusals),
    scenario(groups_not_created, autoCreateSubscriptionGroup="false"),
    scenario(subscriptions_of_heartbeats),
    scenario(tags),
    scenario(commits_with_pulls),
    scenario(permissions_of_groups),
)
