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
ON_PURPOSE: dict[str, dict[str, dict[str, str]]] = {
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
