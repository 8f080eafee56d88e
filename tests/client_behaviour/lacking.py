"""What servers do not have, by name, with the reason. Everything else must work on all of them.

A behaviour that needs something of its server's list is expected to fail there; one that passes
all the same fails the run, so that the lists stay true.
"""

EMBERQ: dict[str, str] = {}
OFFICIAL: dict[str, dict[str, str]] = {
    "4.9": {"timers": "4.9 brokers deliver timed messages at once"},
    "5.5": {},
}
