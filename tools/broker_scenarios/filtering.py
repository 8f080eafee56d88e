"""SQL92 expressions: in pulls, in heartbeats, in checks of a client's configuration."""

from typing import Any

from tests.golden.broker.conversation import Step
from tools.broker_scenarios.steps import (
    SUB_VERSION,
    SUBSCRIPTION,
    SUSPEND,
    Steps,
    answered,
    ask_json,
    consumer,
    create_topic,
    found,
    heartbeat,
    on,
    properties,
    properties_of,
    pull,
    scenario,
    send,
    start,
    subscription,
    update_config,
)

MESSAGES: tuple[dict[str, Any], ...] = (
    {},
    {"a": "1"},
    {"a": "5"},
    {"a": "5.5"},
    {"a": "-3"},
    {"a": "3000000000"},
    {"a": "x"},
    {"a": "TRUE"},
    {"b": "2"},
    {"a": "2", "b": "2"},
    {"a": "it's", "TAGS": "TagA"},
    {"A": "1", "KEYS": "k1"},
    {"a": "abcdef"},
    {"a": "100", "b": "1e2"},
)

EXPRESSIONS = (
    *("a = 1", "a <> 1", "a > 2", "a >= 5", "a < 5", "a <= 5", "a > 5.0", "a = 5.5", "a = '5'"),
    *("a IS NULL", "a IS NOT NULL", "a is null or b is null", "a BETWEEN 1 AND 5"),
    *("a NOT BETWEEN 1 AND 5", "a IN ('1', '5', 'x')", "a NOT IN ('1', '5')", "a = 'it''s'"),
    *("a = TRUE", "a = FALSE", "a", "NOT a", "NOT (a > 2)", "a = b", "a <> b", "a > b", "5 <> a"),
    *("a > 2 AND b = 2", "a > 2 OR b = 2", "b = 2 OR a > 2", "TAGS = 'TagA'", "A = 1"),
    *("KEYS = 'k1'", "a = 3000000000", "a > 2999999999", "a = -3", "-a = 3", "+a = 1", "TRUE"),
    *("FALSE", "1 = 1", "a CONTAINS 'bc'", "a NOT CONTAINS 'bc'", "a STARTSWITH 'ab'"),
    *("a ENDSWITH 'ef'", "a NOT ENDSWITH 'ef'", "a CONTAINS ''", "(a = 1)", "((a = 1)) OR (b=2)"),
    *("a = 1 junk", "a LIKE 'x'", "a = 100 AND b = 100", "a = 1e2", "/* c */ a = 1", "a = .5"),
    *("$x IS NULL", "_y IS NULL AND a = 1", "a = 1L", "a = 'TRUE'", "a IS NOT NULL AND a <> 1"),
)

# Refused by heartbeats and checks; what a pull makes of them is in `broken_in_pulls`.
BROKEN = (
    *("a != 1", "NOT a > 5", "a > 0.0", "a > > 5", "", " ", "a = NULL", "a > 'x'", "a > TRUE"),
    *("a IN (1, 2)", "1 IN ('a')", "a BETWEEN 5 AND 1", "a = 99999999999999999999", "a + 1 = 2"),
    *("'x'", "5", "a = 'x", "(a = 1", "a = 1)", "a.b = 1", "a = 1 AND", "AND a = 1", "a IS 5"),
    *(
        "a NOT b",
        "f(a) = 1",
        "a == 1",
        "4.9E-324 < a",
        "a = 1; b = 2",
        "ä = 1",
        "NULL",
        "a = b = 1",
    ),
)


def check(name: str, text: str | None, kind: str | None = "SQL92") -> Step:
    data = subscription("F1", text or "", kind or "TAG") | {"expressionType": kind}
    return ask_json(name, 46, {"clientId": "c1", "group": "g1", "subscriptionData": data})


def sql(name: str, text: str, offset: int = 0, /, **changes: Any) -> Step:
    return pull(name, "F1", offset, **({"subscription": text, "expressionType": "SQL92"} | changes))


def messages() -> Steps:
    yield create_topic("topic", "F1")
    for number, pairs in enumerate(MESSAGES):
        yield send(f"message {number}", "F1", f"m{number}", i=properties_of(pairs))
    yield found(len(MESSAGES), pull("all", "F1"))


def expressions() -> Steps:
    yield from messages()
    for text in EXPRESSIONS:
        yield sql(f"pull: {text}", text)


def checked_expressions() -> Steps:
    for text in EXPRESSIONS:
        yield check(f"check: {text}", text)
    for text in BROKEN:
        yield check(f"check broken: {text!r}", text)
    yield check("tags are not checked", "a || || b", "TAG")
    yield check("no kind of expression", "a != 1", None)
    yield check("unknown kind of expression", "a != 1", "NOPE")
    yield ask_json("no subscription", 46, {"clientId": "c1", "group": "g1"})
    yield ask_json("empty body", 46, {})


def broken_in_pulls() -> Steps:
    yield from messages()
    for text in BROKEN:
        yield sql(f"pull broken: {text!r}", text)


def broken_in_heartbeats() -> Steps:
    yield create_topic("topic", "F1")
    yield send("message", "F1", "m", i=properties(a="1"))
    for number, text in enumerate((*BROKEN[:8], "a = 1")):
        data = subscription("F1", text, "SQL92")
        yield heartbeat(f"heartbeat with {text!r}", "c1", consumer(f"g{number}", data))
        yield pull(f"pull with {text!r}", "F1", consumerGroup=f"g{number}", sysFlag=0)


def filters_of_heartbeats() -> Steps:
    yield from messages()
    data = subscription("F1", "a > 2", "SQL92")
    yield on("b", heartbeat("heartbeat", "c1", consumer("g1", data)))
    yield pull("by heartbeat", "F1", sysFlag=0)
    yield pull("older version", "F1", sysFlag=0, subVersion=SUB_VERSION - 1)
    yield pull("newer version", "F1", sysFlag=0, subVersion=SUB_VERSION + 1)
    newer = subscription("F1", "b = 2", "SQL92", subVersion=SUB_VERSION + 5)
    yield on("b", heartbeat("newer heartbeat", "c1", consumer("g1", newer)))
    yield pull("by the newer heartbeat", "F1", sysFlag=0, subVersion=SUB_VERSION + 5)
    yield on("b", heartbeat("back to tags", "c1", consumer("g1", subscription("F1", "TagA"))))
    yield pull("by tags again", "F1", sysFlag=0)
    same = subscription("F1", "a = 1", "SQL92", subVersion=SUB_VERSION + 5)
    yield on("b", heartbeat("another text, same version", "c1", consumer("g1", same)))
    yield pull("by the text of the same version", "F1", sysFlag=0, subVersion=SUB_VERSION + 5)


def arrivals_and_filters() -> Steps:
    yield create_topic("topic", "F1")
    held = {"sysFlag": SUBSCRIPTION | SUSPEND, "suspendTimeoutMillis": 1_000}
    yield start("held", on("b", sql("wait", "a > 2", 0, **held)))
    yield send("no match", "F1", "m0", i=properties(a="1"))
    yield answered("held", "no match answers it")
    yield start("again", on("b", sql("wait again", "a > 2", 1, **held)))
    yield send("match", "F1", "m1", i=properties(a="3"))
    yield answered("again", "answered by the match")


def switched_off() -> Steps:
    yield create_topic("topic", "F1")
    yield send("message", "F1", "m", i=properties(a="1"))
    yield sql("pull", "a = 1")
    yield check("check", "a = 1")
    data = subscription("F1", "a = 1", "SQL92")
    yield on("b", heartbeat("heartbeat", "c1", consumer("g1", data)))
    yield pull("by heartbeat", "F1", sysFlag=0)
    yield update_config("switch it on", enablePropertyFilter="true")
    yield found(1, sql("pull after switching it on", "a = 1"))


SCENARIOS = (
    scenario(expressions),
    scenario(checked_expressions),
    scenario(broken_in_pulls),
    scenario(broken_in_heartbeats),
    scenario(filters_of_heartbeats),
    scenario(arrivals_and_filters),
    scenario(switched_off, enablePropertyFilter="false"),
)
