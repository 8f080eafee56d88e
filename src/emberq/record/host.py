"""An address as records hold it: packed bytes that are made once per connection and then copied."""

from typing import NewType

from emberq.errors import RecordError
from emberq.record.layout import IPV4_HOST_SIZE, IPV6_HOST_SIZE

# The 4 or 16 bytes of the address followed by the port in four bytes, big-endian.
PackedHost = NewType("PackedHost", bytes)

PORT_MAX = 65_535
UNKNOWN_HOST = PackedHost(bytes(IPV4_HOST_SIZE))

_IPV4_IN_IPV6_PREFIX = bytes(10) + b"\xff\xff"


def pack_host(ip: str, port: int) -> PackedHost:
    """Pack an address given as text.

    An IPv4 address inside IPv6 (`::ffff:10.0.0.1`, as dual-stack sockets report it) is packed as
    IPv4, which is how the official software sees the same peer.

    Raises:
        RecordError: the text is no IP address, or the port is out of range.
    """
    return pack_host_bytes(pack_ip(ip), port)


def pack_host_bytes(ip: bytes, port: int) -> PackedHost:
    """Pack an address whose 4 or 16 bytes are known already."""
    if not 0 <= port <= PORT_MAX or len(ip) not in (4, 16):
        raise RecordError(f"no host: address of {len(ip)} bytes, port {port}")
    return PackedHost(ip + port.to_bytes(4, "big"))


def pack_ip(ip: str) -> bytes:
    """Return the 4 or 16 bytes of an address given as text."""
    # The common case by hand: importing `ipaddress` costs milliseconds of start-up.
    parts = ip.split(".")
    if len(parts) == 4 and all(part.isascii() and part.isdecimal() for part in parts):
        try:
            return bytes(map(int, parts))
        except ValueError as error:
            raise RecordError(f"no IP address: {ip[:64]!r}") from error

    from ipaddress import IPv6Address  # noqa: PLC0415  # only IPv6 peers pay for the import

    try:
        packed = IPv6Address(ip).packed
    except ValueError as error:
        raise RecordError(f"no IP address: {ip[:64]!r}") from error
    return packed[12:] if packed.startswith(_IPV4_IN_IPV6_PREFIX) else packed


def unpack_host(host: bytes) -> tuple[str, int]:
    """Return the address as text and the port.

    Raises:
        RecordError: the bytes are no packed host, or the port is out of range.
    """
    if len(host) not in (IPV4_HOST_SIZE, IPV6_HOST_SIZE):
        raise RecordError(f"no packed host: {len(host)} bytes")
    port = int.from_bytes(host[-4:], "big")
    if port > PORT_MAX:
        raise RecordError(f"no packed host: port {port}")
    return _format_ip(host[:-4]), port


def format_host(host: bytes) -> str:
    """Return `ip:port`, with brackets around an IPv6 address."""
    ip, port = unpack_host(host)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _format_ip(ip: bytes) -> str:
    if len(ip) == 4:
        return "{}.{}.{}.{}".format(*ip)

    from ipaddress import IPv6Address  # noqa: PLC0415  # only IPv6 peers pay for the import

    return str(IPv6Address(ip))
