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


class ProcessGuard:
    """Notices that the process was forked."""

    __slots__ = ("_process_id",)

    def __init__(self) -> None:
        self._process_id = os.getpid()

    def check(self) -> None:
        if os.getpid() != self._process_id:
            raise ForkedClient(
                "this client was made before the process was forked",
                hint="Make clients after the fork, one in each process",
            )
