"""Free loopback ports."""

import random
import socket

# Below the range from which systems take ports for outgoing connections.
LOWEST, HIGHEST = 20_000, 32_000
ATTEMPTS_MAX = 200


def free_port() -> int:
    return free_port_with()


def free_port_with(*neighbours: int) -> int:
    """A port that is free together with the given neighbours of it, such as `p - 2`."""
    for _ in range(ATTEMPTS_MAX):
        port = random.randrange(LOWEST, HIGHEST)
        if all(_is_free(port + offset) for offset in (0, *neighbours)):
            return port
    raise AssertionError(f"no free port with neighbours {neighbours} found")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
