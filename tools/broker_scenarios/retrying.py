"""Send-back, dead letters and delay levels, with levels of a few seconds."""

from typing import Any

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    Steps,
    ask,
    at_version,
    consumer,
    create_group,
    create_topic,
    found,
    heartbeat,
    keep,
    on,
    oneway,
    properties,
    pull,
    scenario,
    send,
    subscription,
    update_config,
    without,
)

# Official brokers know no unit below the second.
LEVELS = "1s 2s 3s 4s"
USER = properties(KEYS="k1", TAGS="TagA", UNIQ_KEY="UK-1", WAIT="true", x="y")


def send_back(name: str, message: str = "m", /, **changes: Any) -> Step:
    fields = {"offset": f"{{offset {message}}}", "group": "g1", "delayLevel": 1}
    fields |= {"originMsgId": "UK-1", "originTopic": "R1", "unitMode": False}
    return ask(name, 36, **(fields | {"maxReconsumeTimes": 16} | changes))


def sent_back() -> Steps:
    yield create_topic("topic", "R1")
    yield create_group("group", "g1")
    yield keep("m", send("message", "R1", "m0", i=USER, h=5))
    yield send_back("back at level 1")
    yield keep("r", found(1, pull("the retry", "%RETRY%g1")))
    yield ask("the retry topic", 351, topic="%RETRY%g1")
    yield send_back("the retry goes back at level 2", "r", delayLevel=2)
    yield keep("r2", found(1, pull("the second retry", "%RETRY%g1", 1)))
    yield send_back("too often", "r2", maxReconsumeTimes=2)
    yield found(1, pull("the dead letter", "%DLQ%g1"))
    yield ask("the dead-letter topic", 351, topic="%DLQ%g1")
    yield send_back("level -1 is a dead letter at once", delayLevel=-1)
    yield found(1, pull("the second dead letter", "%DLQ%g1", 1))
    yield send_back("level 99 is the last level", delayLevel=99)
    yield found(1, pull("in the schedule topic", "SCHEDULE_TOPIC_XXXX", queueId=3))
    yield oneway(send_back("oneway"))
    yield found(1, pull("the retry of the oneway one", "%RETRY%g1", 2))
    yield send_back("limit 0", maxReconsumeTimes=0)
    yield found(1, pull("the third dead letter", "%DLQ%g1", 2))


def delay_by_attempt() -> Steps:
    yield create_topic("topic", "R1")
    yield create_group("group", "g1", retryMaxTimes=1)
    yield keep("m", send("message", "R1", "m0", i=properties(UNIQ_KEY="UK-2")))
    yield send_back("level 0 is the third", delayLevel=0)
    yield found(1, pull("in the schedule topic", "SCHEDULE_TOPIC_XXXX", queueId=2))
    yield keep("r", found(1, pull("the retry", "%RETRY%g1")))
    yield without(send_back("limit of the group", "r", delayLevel=1), "maxReconsumeTimes")
    yield found(1, pull("the dead letter", "%DLQ%g1"))
    yield at_version(200, send_back("the limit of a very old client does not count", "r"))


def branches() -> Steps:
    yield create_topic("topic", "R1")
    yield create_group("group", "g1")
    yield keep("m", send("message", "R1", "m0", i=properties(UNIQ_KEY="UK-3")))
    yield send_back("group made on demand", group="fresh")
    yield create_group("no retry queues", "dropping", retryQueueNums=0)
    yield send_back("no retry queues: dropped", group="dropping")
    yield create_group("disabled group", "off", consumeEnable=False)
    yield send_back("disabled group sends back", group="off")
    yield send_back("no message there", offset=99_999_999)
    yield send_back("inside a message", offset="{offset m+7}")
    yield send_back("negative offset", offset=-1)
    yield send_back("without a message id", originMsgId=None)
    yield send_back("without an origin", originTopic=None)
    yield send_back("another origin", originTopic="Elsewhere")
    yield send_back("unit mode", unitMode=True, group="unit")
    yield ask("unit mode retry topic", 351, topic="%RETRY%unit")
    for field in ("offset", "group", "delayLevel"):
        yield without(send_back(f"without {field}"), field)
    yield send_back("empty group", group="")
    yield create_group("ten retry queues", "wide", retryQueueNums=10)
    yield send_back("ten retry queues: sent", group="wide")
    yield ask("retry topic of ten queues", 351, topic="%RETRY%wide")
    yield create_topic("retry topic without write permission", "%RETRY%g1", perm=4)
    yield send_back("retry topic that cannot be written")
    yield update_config("read only broker", brokerPermission="4")
    yield send_back("broker that cannot be written")


def unknown_groups() -> Steps:
    yield create_topic("topic", "R1")
    yield keep("m", send("message", "R1", "m0"))
    yield send_back("unknown group", group="nobody")


def online_group() -> Steps:
    yield create_topic("topic", "R1")
    yield on("b", heartbeat("heartbeat", "c1", consumer("g1", subscription("R1"))))
    yield ask("retry topic made by the heartbeat", 351, topic="%RETRY%g1")
    yield keep("m", send("message", "R1", "m0", i=properties(UNIQ_KEY="UK-4", DELAY="0")))
    yield on("b", send_back("back"))
    yield found(1, pull("the retry", "%RETRY%g1"))


def delayed() -> Steps:
    yield create_topic("topic", "D1", 2)
    text = properties(KEYS="k1", TAGS="TagA", UNIQ_KEY="UK-5", DELAY="1")
    yield send("level 1, queue 1", "D1", "m0", e=1, i=text, h=3)
    yield found(1, pull("in the schedule topic", "SCHEDULE_TOPIC_XXXX"))
    yield pull("by tag in the schedule topic", "SCHEDULE_TOPIC_XXXX", subscription="TagA")
    yield found(1, pull("delivered", "D1", queueId=1))
    yield send("level 2", "D1", "m1", i=properties(UNIQ_KEY="UK-6", DELAY="2", WAIT="true"))
    yield send("level 99", "D1", "m2", i=properties(UNIQ_KEY="UK-7", DELAY="99"))
    yield found(1, pull("level 99 is the last", "SCHEDULE_TOPIC_XXXX", queueId=3))
    yield found(1, pull("level 2 delivered", "D1"))
    yield found(2, pull("the last level delivered", "D1"))
    yield send("level 0", "D1", "m3", i=properties(UNIQ_KEY="UK-8", DELAY="0"))
    late = properties(UNIQ_KEY="UK-9", DELAY="1")
    yield send("to a topic made on demand", "D2", "m4", i=late)
    yield found(1, pull("delivered to it", "D2"))
    yield send("own real topic", "D1", "m5", i=late + properties(REAL_TOPIC="D2", REAL_QID="0"))
    yield found(3, pull("its own real topic does not count", "D1"))
    yield send("level with a plus sign", "D1", "m6", i=properties(DELAY="+1"))
    yield send("level with a blank", "D1", "m7", i=properties(DELAY=" 1"))
    yield send("level beyond 32 bits", "D1", "m8", i=properties(DELAY="99999999999"))


SCENARIOS = (
    scenario(sent_back, messageDelayLevel=LEVELS),
    scenario(delay_by_attempt, messageDelayLevel=LEVELS),
    scenario(branches, messageDelayLevel=LEVELS),
    scenario(unknown_groups, autoCreateSubscriptionGroup="false"),
    scenario(online_group, messageDelayLevel=LEVELS),
    scenario(delayed, messageDelayLevel=LEVELS),
)
