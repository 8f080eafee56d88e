import pytest

from emberq.errors import RecordError
from emberq.record.host import format_host, pack_host, pack_host_bytes, pack_ip, unpack_host


def test_an_ipv4_host_is_packed_in_8_bytes() -> None:
    assert pack_host("10.0.0.2", 10911).hex() == "0a00000200002a9f"
    assert unpack_host(bytes.fromhex("0a00000200002a9f")) == ("10.0.0.2", 10911)


def test_an_ipv6_host_is_packed_in_20_bytes() -> None:
    packed = pack_host("2001:db8::1", 50000)

    assert packed.hex() == "20010db80000000000000000000000010000c350"
    assert unpack_host(packed) == ("2001:db8::1", 50000)


def test_an_ipv4_address_inside_ipv6_is_packed_as_ipv4() -> None:
    assert pack_host("::ffff:10.0.0.1", 1) == pack_host("10.0.0.1", 1)


def test_the_zone_of_a_link_local_address_is_left_out() -> None:
    assert pack_ip("fe80::1%eth0") == pack_ip("fe80::1")


def test_hosts_are_shown_with_brackets_only_around_ipv6() -> None:
    assert format_host(pack_host("10.0.0.1", 80)) == "10.0.0.1:80"
    assert format_host(pack_host("::1", 80)) == "[::1]:80"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "10.0.0",
        "10.0.0.256",
        "10.0.0.1.2",
        "10.0.0.-1",
        "1.2.3.٤",
        "::g",
        "9" * 40,
    ],
)
def test_text_that_is_no_address_is_a_record_error(text: str) -> None:
    with pytest.raises(RecordError, match="no IP address"):
        pack_ip(text)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_out_of_range_is_a_record_error(port: int) -> None:
    with pytest.raises(RecordError, match="port"):
        pack_host("10.0.0.1", port)


@pytest.mark.parametrize(
    "packed", [b"", bytes(7), bytes(16), bytes.fromhex("0a00000200010000"), b"\xff" * 8]
)
def test_bytes_that_are_no_host_are_a_record_error(packed: bytes) -> None:
    with pytest.raises(RecordError, match="no packed host"):
        unpack_host(packed)


def test_an_address_of_another_size_is_a_record_error() -> None:
    with pytest.raises(RecordError, match="5 bytes"):
        pack_host_bytes(bytes(5), 1)
