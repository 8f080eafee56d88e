"""Where EmberQ answers otherwise than the official broker on purpose, each with its reason."""

# Expressions that do not compile: official brokers answer such a pull with every message.
BROKEN_EXPRESSIONS = (
    *("a != 1", "NOT a > 5", "a > 0.0", "a > > 5", " ", "a = NULL", "a > 'x'", "a > TRUE"),
    *("a IN (1, 2)", "1 IN ('a')", "a BETWEEN 5 AND 1", "a = 99999999999999999999", "'x'", "5"),
    *("a = 'x", "(a = 1", "a.b = 1", "a = 1 AND", "AND a = 1", "a IS 5", "a NOT b", "a == 1"),
    *("a = 1; b = 2", "ä = 1"),
)
OWN_WORDS = "failures are explained in words of our own"

# Area → scenario → step → why. A step named here must differ.
_EMPTY = "a message without a body is a message; an empty batch is illegal"
_MORE = "offsets differ: messages that the official broker refuses or loses are stored"
_BITS = "a send that says of itself that it is half of a transaction is delivered all the same"

ON_PURPOSE: dict[str, dict[str, dict[str, str]]] = {
    "send": {
        "auto creation switched": {
            "after switching it on": "switching it on again makes topics again",
        },
        "sizes": {
            "empty body": _EMPTY,
            "empty body by code 10": _EMPTY,
            **dict.fromkeys(("4 MiB", "longest properties", "first messages"), _MORE),
        },
        "stored properties": {"what is stored": "lite topics are not offered"},
        "system flags": {
            **dict.fromkeys(("sysFlag 0x4", "sysFlag 0x8", "sysFlag 0xc"), _BITS),
            **dict.fromkeys(
                ("sysFlag 0x40", "sysFlag 0x100", "sysFlag 0x301", "sysFlag 0x400"), _MORE
            ),
            **dict.fromkeys(("sysFlag 0x1000", "sysFlag 0x7fff0000"), _MORE),
            **dict.fromkeys(("a message after them", "the first"), _MORE),
        },
    },
    "batch": {"refused batches": {"no messages": _EMPTY}},
    "pull": {
        "tags": {"unknown kind of expression": "a filter that is unknown is refused, not ignored"},
    },
    "filter": {
        "checked expressions": {"unknown kind of expression": OWN_WORDS},
        "broken in pulls": {
            f"pull broken: {expression!r}": "a filter that cannot be used is refused, not ignored"
            for expression in BROKEN_EXPRESSIONS
        },
    },
    "member": {
        "odd heartbeats": {
            "connections of an unknown model": "what nobody knows counts as the default",
        },
    },
    "offset": {
        "ends and times": {"31: no topic": OWN_WORDS, "31: no queue": OWN_WORDS},
        "resets on the server": {
            "without group": "a reset must say of which group, and to which time",
            "without timestamp": "a reset must say of which group, and to which time",
        },
    },
    "query": {
        "keys": {"keys of the same hash": "a message is answered once, however often it is found"},
        "consume queues": {
            "for a group that is not online": "subscriptions that pulls carry are not remembered"
        },
    },
}
