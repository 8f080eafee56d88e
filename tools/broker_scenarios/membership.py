"""Clients and groups: heartbeats, lists, notices, locks, and calls passed on to clients."""

import json
from typing import Any

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    SUB_VERSION,
    Steps,
    answered,
    ask,
    ask_json,
    at_version,
    close,
    consumer,
    create_group,
    create_topic,
    found,
    has_code,
    heard,
    heartbeat,
    keep,
    on,
    oneway,
    properties,
    pull,
    queue,
    reply,
    scenario,
    send,
    silent,
    start,
    subscription,
)


def members(name: str, group: str = "g1") -> Step:
    return ask(name, 38, consumerGroup=group)


def heartbeats() -> Steps:
    data = subscription("M1", "TagA || TagB")
    yield create_topic("topic", "M1")
    yield members("nobody yet")
    yield heartbeat("first heartbeat", "c1", consumer("g1", data), producers=("p1", "p2"))
    yield heard("a", "told of its own arrival")
    yield heartbeat("same heartbeat", "c1", consumer("g1", data), producers=("p1", "p2"))
    yield silent("a", "nothing changed")
    yield members("one member")
    yield on("b", heartbeat("second client", "c2", consumer("g1", data)))
    yield heard("a", "the first is told of the second")
    yield heard("b", "the second is told of itself")
    yield ask("connections", 203, consumerGroup="g1")
    yield ask("producers of p1", 204, producerGroup="p1")
    yield ask("producers of nobody", 204, producerGroup="nobody")
    yield ask("no producer group", 204)
    yield ask("all producers", 328)
    newer = subscription("M1", "TagC", subVersion=SUB_VERSION + 9)
    yield heartbeat("newer version of a subscription", "c1", consumer("g1", newer))
    yield silent("a", "a newer version alone is no change")
    yield ask("subscription of the group", 345, group="g1", topic="M1")
    yield heartbeat("another topic", "c1", consumer("g1", newer, subscription("M2")))
    yield heard("a", "told of the new subscription")
    yield heard("b", "the other is told of it")
    yield ask("connections after it", 203, consumerGroup="g1")
    yield on("b", heartbeat("without the other topic", "c2", consumer("g1", data)))
    yield heard("a", "told that it is gone")
    yield heard("b", "the sender is told that it is gone")
    yield close("b")
    yield heard("a", "told of the closed connection")
    yield members("one is left")
    yield ask("unregister", 35, clientID="c1", producerGroup="p1", consumerGroup="g1")
    yield members("nobody is left")
    yield ask("connections of nobody", 203, consumerGroup="g1")
    yield ask("p1 is gone", 204, producerGroup="p1")
    yield ask("p2 is still there", 204, producerGroup="p2")
    yield ask("unregister again", 35, clientID="c1", producerGroup="p1", consumerGroup="g1")
    yield ask("unregister nothing", 35, clientID="c1")
    yield ask("unregister without a client", 35, consumerGroup="g1")
    yield ask("the retry topic", 351, topic="%RETRY%g1")
    yield ask("the group", 352, group="g1")


def odd_heartbeats() -> Steps:
    yield ask("no body", 34)
    yield ask("empty object", 34, b"{}")
    yield ask("no JSON", 34, b"{nonsense")
    yield heartbeat("no groups", "c1")
    yield heartbeat("group without subscriptions", "c1", consumer("bare"))
    yield members("of a group without subscriptions", "bare")
    yield heartbeat("empty client id", "", consumer("anonymous", subscription("M1")))
    yield members("of an empty client id", "anonymous")
    yield heartbeat("empty group", "c1", consumer("", subscription("M1")))
    yield heartbeat("unit mode", "c1", consumer("unit", subscription("M1"), unitMode=True))
    yield ask("unit mode retry topic", 351, topic="%RETRY%unit")
    pulling = consumer("pulling", subscription("M1"), consumeType="CONSUME_ACTIVELY")
    yield heartbeat("pull consumer", "c1", pulling)
    yield ask("connections of a pull consumer", 203, consumerGroup="pulling")
    strange = consumer("strange", subscription("M1"), messageModel="UNKNOWN")
    yield heartbeat("unknown model", "c1", strange | {"consumeFromWhere": "UNKNOWN"})
    yield ask("connections of an unknown model", 203, consumerGroup="strange")
    go = subscription("M1", "TagA") | {
        "codeSet": ["2598919"],
        "subVersion": 1_700_000_000_000_000_000,
    }
    yield heartbeat("as Go writes it", "c1", consumer("gopher", go))
    yield ask("connections of a Go client", 203, consumerGroup="gopher")
    yield at_version(401, heartbeat("a 4.9 client", "c1", consumer("old", subscription("M1"))))
    yield ask("connections of a 4.9 client", 203, consumerGroup="old")
    yield oneway(heartbeat("oneway", "c1", consumer("silent", subscription("M1"))))
    yield members("of a oneway heartbeat", "silent")
    yield ask("list without a group", 38)
    yield ask("list of an empty group", 38, consumerGroup="")
    yield create_group("group without notices", "calm", notifyConsumerIdsChangedEnable=False)
    yield on("b", heartbeat("group that is not told", "c9", consumer("calm", subscription("M1"))))
    yield silent("b", "no notice for this group")


def second_version() -> Steps:
    data = consumer("g1", subscription("M1"))
    bare = consumer("g1")
    yield heartbeat("full, fingerprint 7", "c1", data, heartbeatFingerprint=7)
    yield heartbeat("full, same fingerprint", "c1", data, heartbeatFingerprint=7)
    yield heartbeat("without subscriptions", "c1", bare, heartbeatFingerprint=7, withoutSub=True)
    yield ask("subscriptions stay", 203, consumerGroup="g1")
    yield heartbeat("other fingerprint", "c1", data, heartbeatFingerprint=8)
    yield heartbeat("other, without", "c1", bare, heartbeatFingerprint=9, withoutSub=True)
    yield heartbeat("fingerprint 0, without", "c1", bare, withoutSub=True)
    yield ask("subscriptions after fingerprint 0", 203, consumerGroup="g1")
    new = consumer("g2")
    yield heartbeat("new group, without", "c1", new, heartbeatFingerprint=5, withoutSub=True)
    yield members("of the new group", "g2")
    yield on("b", heartbeat("second client", "c2", bare, heartbeatFingerprint=9, withoutSub=True))
    yield members("of both clients")


def groups_not_created() -> Steps:
    yield heartbeat("unknown group", "c1", consumer("nobody", subscription("M1")))
    yield members("it is not registered", "nobody")
    yield heartbeat("system group", "c1", consumer("CID_RMQ_SYS_x", subscription("M1")))
    yield members("system groups are", "CID_RMQ_SYS_x")


def locks() -> Steps:
    def lock(name: str, client: str, *queues: Any, code: int = 41, **changes: Any) -> Step:
        body = {"clientId": client, "consumerGroup": "g1", "mqSet": list(queues)}
        return ask_json(name, code, body | {"onlyThisBroker": False} | changes)

    yield create_topic("topic", "L1", 4)
    first, second, third = queue("L1", 0), queue("L1", 1), queue("L1", 2)
    yield lock("lock two", "c1", first, second)
    yield lock("lock again", "c1", first, second)
    yield lock("another client gets what is left", "c2", second, third)
    yield lock("another group", "c2", first, consumerGroup="g2")
    yield lock("unlock of another's", "c2", first, code=42)
    yield lock("it is still locked", "c2", first)
    yield lock("unlock", "c1", first, code=42)
    yield lock("now it is free", "c2", first)
    yield lock("nothing", "c1")
    yield lock("queue that is not there", "c1", queue("Nowhere", 77))
    yield lock("queue of another broker", "c1", queue("L1", 3, "brk-z"))
    yield lock("only this broker", "c1", queue("L1", 3), onlyThisBroker=True)
    yield oneway(lock("unlock oneway", "c2", first, code=42))
    yield lock("free after the oneway unlock", "c1", first)
    yield ask("lock without a body", 41)
    yield ask("unlock without a body", 42)
    yield ask_json("lock without a group", 41, {"clientId": "c1", "mqSet": [first]})
    yield ask_json("lock without a client", 41, {"consumerGroup": "g1", "mqSet": [third]})
    yield ask_json("lock without queues", 41, {"clientId": "c1", "consumerGroup": "g1"})


def lists() -> Steps:
    yield create_topic("topic", "M3")
    yield create_topic("other topic", "M4")
    yield create_group("group g2", "g2")
    yield ask("nobody consumes it", 300, topic="M3")
    yield heartbeat("heartbeat", "c1", consumer("g1", subscription("M3")))
    yield ask("g1 consumes it", 300, topic="M3")
    yield ask("commit of g2", 15, consumerGroup="g2", topic="M3", queueId=0, commitOffset=0)
    yield ask("g1 and g2 consume it", 300, topic="M3")
    yield ask("consumers of an unknown topic", 300, topic="Nowhere")
    yield ask("consumers of no topic", 300)
    yield ask("topics of g1", 343, group="g1")
    yield ask("topics of g2", 343, group="g2")
    yield ask("topics of nobody", 343, group="nobody")
    yield ask("topics of no group", 343)
    yield ask("subscription of g1", 345, group="g1", topic="M3")
    yield ask("subscription of g1 to another topic", 345, group="g1", topic="M4")
    yield ask("subscription of nobody", 345, group="nobody", topic="M3")
    yield ask("subscription without a topic", 345, group="g1")
    yield ask("subscription without a group", 345, topic="M3")


def calls_passed_on() -> Steps:
    def info(name: str, **changes: Any) -> Step:
        fields = {"consumerGroup": "g1", "clientId": "c1", "jstackEnable": False}
        return ask(name, 307, **(fields | changes))

    def consume(name: str, **changes: Any) -> Step:
        fields = {"consumerGroup": "g1", "clientId": "c1", "msgId": "{id m}"}
        return ask(name, 309, **(fields | {"brokerName": "brk-a"} | changes))

    def status(name: str, **changes: Any) -> Step:
        return ask(name, 223, **({"topic": "M5", "group": "g1"} | changes))

    yield create_topic("topic", "M5")
    yield keep("m", send("message", "M5", "m0", i=properties(UNIQ_KEY="UK-1")))
    yield found(1, pull("the message", "M5"))
    yield info("nobody online")
    yield consume("nobody online to consume")
    yield status("nobody online to ask for a status")
    yield on("b", heartbeat("heartbeat", "c1", consumer("g1", subscription("M5"))))
    yield heard("b", "told of its own arrival")
    yield start("info", info("running info"))
    yield heard("b", "asked for its running info")
    body = json.dumps({"properties": {"x": "y"}}).encode()
    yield reply("b", "gives its running info", 0, body)
    yield answered("info", "the running info")
    yield start("info2", info("running info with stacks", jstackEnable=True))
    yield heard("b", "asked for its stacks")
    yield Step("reply", "refuses", "b", reply("b", "", 1).request)
    yield answered("info2", "the refusal")
    yield info("another client", clientId="c9")
    yield info("another group", consumerGroup="nobody")
    yield info("without a client", clientId=None)
    yield start("consume", consume("consume directly"))
    yield heard("b", "asked to consume")
    result = {"autoCommit": True, "consumeResult": "CR_SUCCESS", "order": False}
    yield reply("b", "consumed", 0, json.dumps(result).encode())
    yield answered("consume", "consumed directly")
    yield start("consume2", consume("consume with a topic", topic="M5"))
    yield heard("b", "asked to consume with a topic")
    yield reply("b", "consumed again", 0, json.dumps(result).encode())
    yield answered("consume2", "consumed directly again")
    yield consume("a message that is not there", msgId="7F00000100002A9F000000000FFFFFFF")
    yield consume("a message id that is none", msgId="junk")
    yield start("status", status("status of clients"))
    yield heard("b", "asked for its status")
    of_queue = '{{"brokerName":"brk-a","queueId":0,"topic":"M5"}:12}'
    table = f'{{"consumerTable":{{}},"messageQueueTable":{of_queue}}}'
    yield reply("b", "gives its status", 0, table.encode())
    yield answered("status", "the status of clients")
    yield start("status2", status("status of one client", clientAddr="c1"))
    yield heard("b", "the one client is asked")
    yield reply("b", "gives its status again", 0, table.encode())
    yield answered("status2", "the status of one client")
    yield status("status of a client that is not there", clientAddr="c9")


def departures() -> Steps:
    data = consumer("g1", subscription("M6"))
    yield on("b", heartbeat("first", "c1", data, producers=("p1",)))
    yield heard("b", "told of itself")
    yield on("c", heartbeat("second", "c2", data))
    yield heard("b", "first is told of the second")
    yield heard("c", "second is told of itself")
    yield on("c", ask("second unregisters", 35, clientID="c2", consumerGroup="g1"))
    yield heard("b", "first is told of the departure")
    yield members("the first is left")
    yield on("d", heartbeat("same client id, other connection", "c1", data))
    yield heard("b", "told of the second connection")
    yield members("one id, two connections")
    yield close("b")
    yield has_code(1, ask("its producer is gone", 204, producerGroup="p1"))
    yield members("the other connection is left")


SCENARIOS = (
    scenario(heartbeats),
    scenario(odd_heartbeats),
    scenario(second_version),
    scenario(groups_not_created, autoCreateSubscriptionGroup="false"),
    scenario(locks),
    scenario(lists),
    scenario(calls_passed_on),
    scenario(departures),
)
