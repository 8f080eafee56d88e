"""Free loopback ports."""

import random
import socket

# Below the range from which systems take ports for outgoing connections.
LOWEST, HIGHEST = 20_000, 32_000
ATTEMPTS_MAX = 200

# Not what a test may have seeded: several runs look for ports at the same time.
_random = random.SystemRandom()
# A port that was given out is bound later, or again after a kill: no other server may get it.
_given: set[int] = set()


def free_port() -> int:
    return free_port_with()


def broker_port() -> int:
    """One with those for a broker's fast and replication listeners beside it."""
    return free_port_with(-2, 1)


def free_port_with(*neighbours: int) -> int:
    """A port that is free together with the given neighbours of it, such as `p - 2`."""
    for _ in range(ATTEMPTS_MAX):
        port = _random.randrange(LOWEST, HIGHEST)
        ports = {port + offset for offset in (0, *neighbours)}
        if not ports & _given and all(map(_is_free, ports)):
            _given.update(ports)
            return port
    raise AssertionError(f"no free port with neighbours {neighbours} found")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
