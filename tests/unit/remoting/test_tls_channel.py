"""TLS over bytes: two channels that talk to each other without a socket."""

import pytest

from emberq.errors import ProtocolError
from emberq.remoting.tls import ServerTls, TlsSettings, client_context
from emberq.remoting.tls_channel import TlsChannel


@pytest.fixture
def server() -> TlsChannel:
    return TlsChannel(ServerTls(TlsSettings()).context(), server_side=True)


@pytest.fixture
def client() -> TlsChannel:
    channel = TlsChannel(client_context(TlsSettings()), server_side=False, server_name="localhost")
    channel.start()
    return channel


def shake_hands(client: TlsChannel, server: TlsChannel) -> None:
    while not (client.is_established and server.is_established):
        server.receive(client.output())
        client.receive(server.output())


def test_both_sides_are_established_and_understand_each_other(
    client: TlsChannel, server: TlsChannel
) -> None:
    shake_hands(client, server)

    client.send(b"question")
    assert server.receive(client.output()) == b"question"
    server.send(b"answer")
    assert client.receive(server.output()) == b"answer"


def test_bytes_one_by_one_are_enough(client: TlsChannel, server: TlsChannel) -> None:
    while not (client.is_established and server.is_established):
        for byte in client.output():
            server.receive(bytes([byte]))
        for byte in server.output():
            client.receive(bytes([byte]))

    client.send(b"question")
    assert b"".join(server.receive(bytes([byte])) for byte in client.output()) == b"question"


def test_megabytes_pass_in_one_piece(client: TlsChannel, server: TlsChannel) -> None:
    shake_hands(client, server)
    plain = bytes(range(256)) * 20_000

    client.send(plain)

    assert server.receive(client.output()) == plain


def test_a_goodbye_is_seen_after_what_came_before_it(
    client: TlsChannel, server: TlsChannel
) -> None:
    shake_hands(client, server)

    client.send(b"last words")
    client.say_goodbye()

    assert server.receive(client.output()) == b"last words"
    assert server.is_finished


def test_nothing_can_be_said_after_the_goodbye(client: TlsChannel, server: TlsChannel) -> None:
    shake_hands(client, server)
    client.say_goodbye()
    server.receive(client.output())
    server.say_goodbye()

    with pytest.raises(ProtocolError):
        server.send(b"too late")


def test_a_goodbye_during_the_handshake_does_no_harm(
    client: TlsChannel, server: TlsChannel
) -> None:
    server.receive(client.output()[:50])

    server.say_goodbye()
    client.say_goodbye()

    assert not server.is_established


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x00\x05hello", b"\x16" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 9]
)
def test_bytes_that_are_no_handshake_are_protocol_errors(
    server: TlsChannel, garbage: bytes
) -> None:
    with pytest.raises(ProtocolError, match="TLS failed"):
        server.receive(garbage)


def test_damaged_bytes_after_the_handshake_are_protocol_errors(
    client: TlsChannel, server: TlsChannel
) -> None:
    shake_hands(client, server)
    client.send(b"question")
    encrypted = bytearray(client.output())
    encrypted[-1] ^= 1

    with pytest.raises(ProtocolError):
        server.receive(bytes(encrypted))
    with pytest.raises(ProtocolError):
        server.send(b"answer")


def test_no_output_is_the_empty_bytes(server: TlsChannel) -> None:
    assert server.output() == b""
