"""Where EmberQ answers otherwise than the official broker on purpose, each with its reason."""

# Expressions that do not compile: official brokers answer such a pull with every message.
BROKEN_EXPRESSIONS = (
    *("a != 1", "NOT a > 5", "a > 0.0", "a > > 5", " ", "a = NULL", "a > 'x'", "a > TRUE"),
    *("a IN (1, 2)", "1 IN ('a')", "a BETWEEN 5 AND 1", "a = 99999999999999999999", "'x'", "5"),
    *("a = 'x", "(a = 1", "a.b = 1", "a = 1 AND", "AND a = 1", "a IS 5", "a NOT b", "a == 1"),
    *("a = 1; b = 2", "ä = 1"),
)
NOT_OFFERED = "not offered, so answered as a code that nobody knows"
# RocksDB, static topics, replication, limits on cold reads, users,
# pop and lite topics.
CODES_NOT_OFFERED = (
    *(354, 355, 513, 905, 906, 908, 2001, 2002, 2003, 2004),
    *(3001, 3005, 5001, 200055, 200056, 200070, 200074),
)
REFUSED_VALUE = "a value that cannot be read is refused, not passed over"
IN_FLIGHT = "where groups pull is told, and messages in flight are not negative"
TIME_SPANS = "a group without an offset waits for the oldest message, not since 1970"
EVERY_QUEUE = "figures of single queues are there for every topic"

_EMPTY = "a message without a body is a message; an empty batch is illegal"
_BITS = "a send that says of itself that it is half of a transaction is delivered all the same"

_MARKER = "an empty property is not stored; no reader can tell"
_DELAYED_HALF = "a half message waits as one; its delay counts when it is committed"
_ENDED_ONCE = "the first end of a transaction counts, later ones change nothing"
_PLAIN_RESUMED = "what is no half message is not made one"
_COPY_FLAG = "copies of a half message keep its flag"
_NOT_ASKED = "putting a half message back is not counted as a question"

# Area → scenario → step → why. A step named here must differ.
ON_PURPOSE: dict[str, dict[str, dict[str, str]]] = {
    "send": {
        "auto creation switched": {
            "after switching it on": "switching it on again makes topics again",
        },
        "sizes": {"empty body": _EMPTY, "empty body by code 10": _EMPTY},
        "stored properties": {"what is stored": "lite topics are not offered"},
        "system flags": {"what is stored": _BITS},
        "system flags of transactions": dict.fromkeys(
            (
                *("a message after 0x4", "what is stored of 0x4"),
                *("a message after 0xc", "what is stored of 0xc"),
            ),
            _BITS,
        ),
    },
    "batch": {"refused batches": {"no messages": _EMPTY}},
    "pull": {
        "tags": {"unknown kind of expression": "a filter that is unknown is refused, not ignored"},
    },
    "filter": {
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
        "resets on the server": {
            "without group": "a reset must say of which group, and to which time",
            "without timestamp": "a reset must say of which group, and to which time",
        },
    },
    "query": {
        "keys": {"keys of the same hash": "a message is answered once, however often it is found"},
    },
    "admin": {
        "deletion of groups": {"offset of 4.9": "the flag of the 4.9 line is obeyed too"},
        "configuration": {
            "unreadable number": REFUSED_VALUE,
            "unreadable permission": REFUSED_VALUE,
            "no value": REFUSED_VALUE,
            "the configuration in the end": REFUSED_VALUE,
        },
        "unknown codes": {
            **{f"code {code}": NOT_OFFERED for code in CODES_NOT_OFFERED},
            "code 60": "its bytes hold times of the run",
        },
    },
    "timer": {
        "recalled": {"markers in the timer's topic": _MARKER},
        "recalls refused": {"without a handle": "a missing field is named"},
        "recall with topics": {"marker in the timer's topic": _MARKER},
    },
    "transaction": {
        "half messages with delay": dict.fromkeys(("half topic", "schedule topic"), _DELAYED_HALF),
        "ended twice": dict.fromkeys(("a last message", "all that consumers see"), _ENDED_ONCE),
        "resuming": dict.fromkeys(("a plain message", "half topic after it"), _PLAIN_RESUMED),
        "flags of copies": {"the copy": _COPY_FLAG},
        "immunity": {"put back": _NOT_ASKED},
        "immunity ends": {"the broker asks later": _NOT_ASKED},
    },
    "statistics": {
        "consume progress": {
            "of all groups": IN_FLIGHT,
            "of all groups, not said which": IN_FLIGHT,
            "time span": TIME_SPANS,
            "time span of an unknown group": TIME_SPANS,
            "time span of no group": TIME_SPANS,
        },
        "counters": {
            f"{name} of {key}": EVERY_QUEUE
            for name, key in (
                ("QUEUE_PUT_NUMS", "S3@0"),
                ("QUEUE_PUT_SIZE", "S3@0"),
                ("QUEUE_GET_NUMS", "S3@0@g1"),
                ("QUEUE_GET_SIZE", "S3@0@g1"),
            )
        },
        "runtime": {"facts of the running broker": "keys of both lines"},
    },
}
