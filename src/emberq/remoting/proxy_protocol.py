"""The PROXY protocol's line (v1) and binary header (v2) before a connection's own bytes.

A balancer in front of the server sends it to name the real client.
"""

from msgspec import Struct

from emberq.errors import ProtocolError

V1_PREFIX = b"PROXY "
V1_LINE_MAX_BYTES = 107  # the standard's worst case, line end included
V2_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V2_HEAD_BYTES = 16

_LOCAL, _PROXY = 0x20, 0x21
_TCP4, _TCP6 = 0x11, 0x21
_ADDRESS_BYTES = {_TCP4: 4, _TCP6: 16}


class ProxyHeader(Struct, frozen=True):
    """How many bytes it took, and whom it names (None: the balancer speaks for itself)."""

    size: int
    source: tuple[str, int] | None


def may_begin(data: bytes) -> bool:
    """Could these first bytes of a connection be a PROXY header?"""
    return V1_PREFIX.startswith(data[:6]) or V2_SIGNATURE.startswith(data[:12])


def parse(data: bytes) -> ProxyHeader | None:
    """The header at the start of `data`; None while it is not complete.

    Raises:
        ProtocolError: it began like one but is none.
    """
    if data.startswith(V1_PREFIX):
        return _parse_line(data)
    if data.startswith(V2_SIGNATURE):
        return _parse_binary(data)
    if may_begin(data):
        return None
    raise ProtocolError("not a PROXY header")


def _parse_line(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, V1_LINE_MAX_BYTES)
    if end < 0:
        if len(data) >= V1_LINE_MAX_BYTES:
            raise ProtocolError("PROXY line without an end")
        return None
    try:
        words = data[:end].decode("ascii").split(" ")
        if words[1] == "UNKNOWN":
            return ProxyHeader(end + 2, None)
        _, family, source, _, port, _ = words
        width = {"TCP4": 4, "TCP6": 16}[family]
        return ProxyHeader(end + 2, (_checked_address(source, width), _checked_port(port)))
    except (LookupError, ValueError):
        raise ProtocolError("malformed PROXY line") from None


def _parse_binary(data: bytes) -> ProxyHeader | None:
    if len(data) < V2_HEAD_BYTES:
        return None
    version_and_command, family = data[12], data[13]
    length = int.from_bytes(data[14:16], "big")
    if version_and_command not in (_LOCAL, _PROXY):
        raise ProtocolError("PROXY header of an unknown version")
    if len(data) < V2_HEAD_BYTES + length:
        return None
    size = V2_HEAD_BYTES + length
    width = _ADDRESS_BYTES.get(family)
    if version_and_command == _LOCAL or width is None:
        return ProxyHeader(size, None)
    if length < 2 * width + 4:
        raise ProtocolError("PROXY header too short for its addresses")
    address = data[V2_HEAD_BYTES : V2_HEAD_BYTES + width]
    port_at = V2_HEAD_BYTES + 2 * width
    return ProxyHeader(size, (_address_text(address), _port(data, port_at)))


def _checked_address(text: str, width: int) -> str:
    from ipaddress import ip_address  # noqa: PLC0415 - rare; not worth its start-up time

    address = ip_address(text)
    if len(address.packed) != width:
        raise ValueError(text)
    return str(address)


def _checked_port(text: str) -> int:
    port = int(text) if text.isdigit() else -1
    if not 0 <= port <= 65535:
        raise ValueError(text)
    return port


def _port(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 2], "big")


def _address_text(address: bytes) -> str:
    if len(address) == 4:
        return ".".join(map(str, address))
    from ipaddress import IPv6Address  # noqa: PLC0415 - rare; not worth its start-up time

    return str(IPv6Address(address))
