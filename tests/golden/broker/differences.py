"""Where EmberQ answers otherwise than the official broker on purpose, each with its reason."""

# Area → scenario → step → why. A step named here must differ.
ON_PURPOSE: dict[str, dict[str, dict[str, str]]] = {
    "pull": {
        "tags": {"unknown kind of expression": "a filter that is unknown is refused, not ignored"},
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
        "consume queues": {
            "for a group that is not online": "subscriptions that pulls carry are not remembered"
        },
    },
}
