"""What a client is called: its id among all clients, and the keys of its messages."""

import os
import random
import time
from ipaddress import ip_address

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


class _ThisProcess:
    """Asked for with every message: a number that forks change, for the process id costs a call
    into the kernel."""

    forks = 0

    @classmethod
    def note_fork(cls) -> None:
        cls.forks += 1


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_ThisProcess.note_fork)


class ProcessGuard:
    """Notices that the process was forked."""

    __slots__ = ("_forks",)

    def __init__(self) -> None:
        self._forks = _ThisProcess.forks

    def check(self) -> None:
        if _ThisProcess.forks != self._forks:
            raise ForkedClient(
                "this client was made before the process was forked",
                hint="Make clients after the fork, one in each process",
            )
