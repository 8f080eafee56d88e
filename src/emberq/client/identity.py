"""What a client is called: its id among all clients, and the keys of its messages."""

import os
import random
import time
from ipaddress import ip_address
from weakref import WeakSet

from emberq.errors import ForkedClient
from emberq.record.message_id import UniqueKeyGenerator

DEFAULT_INSTANCE = "DEFAULT"


def client_id(ip: str, instance_name: str, unit_name: str | None = None) -> str:
    """`ip@instance[@unit]`; two clients with one id would share queues wrongly."""
    return "@".join(filter(None, (ip, instance_name, unit_name)))


def unique_instance_name() -> str:
    """As official clients name themselves unless told otherwise: process and time."""
    return f"{os.getpid()}#{time.monotonic_ns()}"


def key_generator(ip: str) -> UniqueKeyGenerator:
    try:
        packed = ip_address(ip).packed
    except ValueError:  # a host name
        packed = bytes(4)
    return UniqueKeyGenerator(
        packed, os.getpid(), random.getrandbits(32), lambda: time.time_ns() // 1_000_000
    )


class ProcessGuard:
    """Notices that the process was forked. It is asked with every message: a fact that forks
    change, for the process id costs a call into the kernel."""

    __slots__ = ("__weakref__", "is_forked")

    def __init__(self) -> None:
        self.is_forked = False
        _guards.add(self)

    def check(self) -> None:
        if self.is_forked:
            raise ForkedClient(
                "this client was made before the process was forked",
                hint="Make clients after the fork, one in each process",
            )


_guards: "WeakSet[ProcessGuard]" = WeakSet()


def _note_fork() -> None:
    for guard in _guards:
        guard.is_forked = True


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_note_fork)
