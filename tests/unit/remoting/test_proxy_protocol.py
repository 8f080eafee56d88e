"""PROXY headers, version 1 and 2: whom they name, torn ones, and garbage."""

from ipaddress import ip_address

import pytest

from emberq.errors import ProtocolError
from emberq.remoting.proxy_protocol import V2_SIGNATURE, ProxyHeader, may_begin, parse

V1_TCP4 = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 9876\r\n"
V1_TCP6 = b"PROXY TCP6 2001:db8::1 2001:db8::2 65535 9876\r\n"


def v2(command: int, family: int, *addresses: str, ports: bytes = b"", extra: bytes = b"") -> bytes:
    content = b"".join(ip_address(address).packed for address in addresses) + ports + extra
    return V2_SIGNATURE + bytes([command, family]) + len(content).to_bytes(2, "big") + content


V2_TCP4 = v2(0x21, 0x11, "192.0.2.7", "198.51.100.1", ports=b"\x9c\x40\x26\x94")
V2_TCP6 = v2(0x21, 0x21, "2001:db8::1", "2001:db8::2", ports=b"\xff\xff\x26\x94")

WHOLE = [
    pytest.param(V1_TCP4, ("192.0.2.7", 40000), id="v1 TCP4"),
    pytest.param(V1_TCP6, ("2001:db8::1", 65535), id="v1 TCP6"),
    pytest.param(b"PROXY UNKNOWN\r\n", None, id="v1 unknown"),
    pytest.param(b"PROXY UNKNOWN ff:ff anything at all\r\n", None, id="v1 unknown with words"),
    pytest.param(V2_TCP4, ("192.0.2.7", 40000), id="v2 TCP4"),
    pytest.param(V2_TCP6, ("2001:db8::1", 65535), id="v2 TCP6"),
    pytest.param(v2(0x20, 0x00), None, id="v2 local"),
    pytest.param(v2(0x20, 0x11, "192.0.2.7", "1.1.1.1", ports=bytes(4)), None, id="v2 local TCP4"),
    pytest.param(v2(0x21, 0x00), None, id="v2 unspecified"),
    pytest.param(v2(0x21, 0x31, extra=bytes(216)), None, id="v2 unix"),
    pytest.param(
        v2(0x21, 0x11, "192.0.2.7", "1.1.1.1", ports=b"\0\1\0\2", extra=b"\x03\0\x04crc!"),
        ("192.0.2.7", 1),
        id="v2 with extensions",
    ),
]


@pytest.mark.parametrize(("header", "source"), WHOLE)
def test_a_header_names_its_source_and_its_size(
    header: bytes, source: tuple[str, int] | None
) -> None:
    assert parse(header) == ProxyHeader(len(header), source)
    assert parse(header + b"\0\0\0\x04") == ProxyHeader(len(header), source)


@pytest.mark.parametrize(("header", "source"), WHOLE)
def test_a_torn_header_waits_for_more(header: bytes, source: tuple[str, int] | None) -> None:
    for cut in range(len(header)):
        assert may_begin(header[:cut])
        assert parse(header[:cut]) is None


@pytest.mark.parametrize("first", [b"\0\0\0\x80", b"\x16\x03\x01", b"GET / ", b"PROXX", b"\r\nx"])
def test_other_beginnings_are_no_headers(first: bytes) -> None:
    assert not may_begin(first)
    with pytest.raises(ProtocolError):
        parse(first)


@pytest.mark.parametrize(
    "line",
    [
        b"PROXY \r\n",
        b"PROXY TCP4\r\n",
        b"PROXY TCP5 192.0.2.7 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 1\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 1 2 3\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 -1 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 +1 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 1_0 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 " + b"9" * 60 + b" 2\r\n",
        b"PROXY TCP4 host 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.7\nforged 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
        b"PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 \xff 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 " + b"1" * 100,
        b"PROXY UNKNOWN " + b"x" * 100 + b"\r\n",
    ],
)
def test_a_malformed_line_is_a_protocol_error(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(line)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(v2(0x11, 0x11), id="version 1 in binary"),
        pytest.param(v2(0x22, 0x11), id="unknown command"),
        pytest.param(v2(0x21, 0x11, "192.0.2.7", ports=bytes(3)), id="too short for IPv4"),
        pytest.param(v2(0x21, 0x21, "2001:db8::1", ports=bytes(19)), id="too short for IPv6"),
    ],
)
def test_a_malformed_binary_header_is_a_protocol_error(header: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(header)
