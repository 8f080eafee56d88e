"""Addresses as peers write them, `host:port` and lists of them, and our own."""

import socket
from contextlib import suppress

from emberq.errors import ConfigError

LOOPBACK = "127.0.0.1"
# Nothing is sent there: to choose a route, the system only has to look at its tables.
_SOMEWHERE_ELSE = ("192.0.2.1", 9)


def split_address(address: str) -> tuple[str, int]:
    """Host and port; an IPv6 host may stand in brackets.

    Raises:
        ConfigError: there is no port, or it is no number.
    """
    host, _, port = address.strip().rpartition(":")
    if not host or not (port.isascii() and port.isdigit()):
        raise ConfigError(f"{address!r} is no address: expected host:port")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_list(text: str) -> list[str]:
    """The addresses of a list; `;` is the official separator, a comma the usual mistake."""
    return [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]


def local_address() -> str:
    """The address of the interface towards the network, the loopback where there is none."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(_SOMEWHERE_ELSE)
        return str(probe.getsockname()[0])
    with suppress(OSError):
        return socket.gethostbyname(socket.gethostname())
    return LOOPBACK
