"""TLS and plain peers on one port, with and without certificates, and certificates that change."""

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from emberq.errors import ConnectFailed, ConnectionClosed
from emberq.protocol.command import Command, answer, new_request
from emberq.protocol.frame import encode_frame
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer
from emberq.remoting.tls import (
    RELOAD_CHECK_INTERVAL_S,
    ServerTls,
    TlsSettings,
    client_context,
    settings_from,
)
from tests.support.certificates import Authority, Issued, common_name
from tests.support.endpoints import ECHO, WORK, connected, endpoint_of, serving
from tests.support.raw_peer import raw_peer
from tests.support.waiting import loop_turns, until

pytestmark = pytest.mark.integration

PROXY_V1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 9876\r\n"
PROXY_V2 = bytes.fromhex("0d0a0d0a000d0a515549540a 21 11 000c c0000207 c6336401 9c40 2694")


@pytest.fixture(scope="module")
def self_signed() -> Callable[[str], ServerTls]:
    """The official default: test mode, here in any of the three modes."""
    return lambda mode: ServerTls(settings_from({"tls.server.mode": mode}))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def server_tls(
    issued: Issued, *, trusted: Path | None = None, clock: Callable[[], float] | None = None
) -> ServerTls:
    properties = {
        "tls.server.mode": "enforcing",
        "tls.test.mode.enable": "false",
        "tls.server.certPath": str(issued.cert_path),
        "tls.server.keyPath": str(issued.key_path),
    }
    if trusted is not None:
        properties |= {
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": str(trusted),
        }
    settings = settings_from(properties)
    return ServerTls(settings) if clock is None else ServerTls(settings, clock)


def client_tls(*, trusted: Path | None = None, own: Issued | None = None) -> ssl.SSLContext:
    properties = {"tls.test.mode.enable": "false"}
    if trusted is not None:
        properties |= {
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": str(trusted),
        }
    if own is not None:
        properties |= {
            "tls.client.certPath": str(own.cert_path),
            "tls.client.keyPath": str(own.key_path),
        }
    return client_context(settings_from(properties))


def anything_goes() -> ssl.SSLContext:
    return client_context(TlsSettings())


async def is_served(connection: Connection) -> bool:
    return (await connection.call(new_request(ECHO, body=b"x"), 10)).body == b"x"


@pytest.mark.parametrize(
    ("mode", "is_plain_served", "is_tls_served"),
    [("disabled", True, False), ("permissive", True, True), ("enforcing", False, True)],
)
async def test_the_mode_decides_who_is_served_on_the_one_port(
    self_signed: Callable[[str], ServerTls],
    mode: str,
    is_plain_served: bool,
    is_tls_served: bool,
) -> None:
    async with serving(endpoint_of(tls=self_signed(mode))) as address:
        async with connected(address) as plain:
            if is_plain_served:
                assert await is_served(plain)
            else:
                with pytest.raises(ConnectionClosed):
                    await is_served(plain)
        if is_tls_served:
            async with connected(address, tls=anything_goes()) as secret:
                assert await is_served(secret)
        else:
            with pytest.raises(ConnectFailed):
                await connect(*address, endpoint_of(), tls=anything_goes())


async def test_plain_and_tls_peers_are_served_side_by_side(
    self_signed: Callable[[str], ServerTls],
) -> None:
    async with (
        serving(endpoint_of(tls=self_signed("permissive"))) as address,
        connected(address) as plain,
        connected(address, tls=anything_goes()) as first,
        connected(address, tls=anything_goes()) as second,
    ):
        served = await asyncio.gather(*(is_served(c) for c in (plain, first, second) * 20))

    assert all(served)


async def test_megabytes_pass_in_both_directions(self_signed: Callable[[str], ServerTls]) -> None:
    body = os.urandom(1024) * 5 * 1024
    async with (
        serving(endpoint_of(tls=self_signed("enforcing"))) as address,
        connected(address, tls=anything_goes()) as connection,
    ):
        answers = await asyncio.gather(
            *(connection.call(new_request(ECHO, body=body), 15) for _ in range(4))
        )

    assert [response.body == body for response in answers] == [True] * 4


async def test_a_server_calls_its_client_over_tls(self_signed: Callable[[str], ServerTls]) -> None:
    async def ask_back(command: Command, connection: Connection) -> Answer:
        back = await connection.call(new_request(ECHO, body=b"back"), 10)
        return answer(command, body=back.body)

    async with (
        serving(endpoint_of({WORK: ask_back}, tls=self_signed("enforcing"))) as address,
        connected(address, endpoint_of(), tls=anything_goes()) as connection,
    ):
        assert (await connection.call(new_request(WORK), 10)).body == b"back"


async def test_a_client_that_checks_takes_the_right_certificate_and_no_other(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger")
    endpoint = endpoint_of(tls=server_tls(authority.issue("server")))
    async with serving(endpoint) as address:
        right = client_tls(trusted=authority.cert_path)
        async with connected(address, tls=right) as connection:
            assert await is_served(connection)

        wrong = client_tls(trusted=stranger.cert_path)
        with pytest.raises(ConnectFailed, match="TLS failed: CERTIFICATE_VERIFY_FAILED"):
            await connect(*address, endpoint_of(), tls=wrong)
        await until(lambda: not endpoint.connections)


async def test_a_server_that_checks_serves_only_clients_with_a_certificate_it_trusts(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger")
    endpoint = endpoint_of(
        tls=server_tls(authority.issue("server"), trusted=authority.cert_path),
    )
    async with serving(endpoint) as address:
        known = client_tls(own=authority.issue("client"))
        async with connected(address, tls=known) as connection:
            assert await is_served(connection)

        for context in (client_tls(), client_tls(own=stranger.issue("forger"))):
            # With TLS 1.3 the client is done before the server has seen its certificate.
            with pytest.raises((ConnectFailed, ConnectionClosed)):
                async with connected(address, tls=context) as connection:
                    await is_served(connection)
        await until(lambda: not endpoint.connections)


async def test_new_connections_see_new_certificates_and_old_ones_live_on(
    authority: Authority,
) -> None:
    now = 1000.0
    issued = authority.issue("first", file_name="server")
    endpoint = endpoint_of(tls=server_tls(issued, clock=lambda: now))
    async with (
        serving(endpoint) as address,
        connected(address, tls=anything_goes()) as old,
    ):
        assert await certificate_name(address) == "first"

        authority.issue("second", file_name="server")
        for path in (issued.cert_path, issued.key_path):
            stamp = path.stat().st_mtime_ns + 1_000_000_000
            os.utime(path, ns=(stamp, stamp))
        assert await certificate_name(address) == "first"
        now += RELOAD_CHECK_INTERVAL_S
        assert await certificate_name(address) == "second"
        assert await is_served(old)

        issued.key_path.write_text("half of a ke")
        now += RELOAD_CHECK_INTERVAL_S
        assert await certificate_name(address) == "second"
        assert await is_served(old)


async def certificate_name(address: tuple[str, int]) -> str:
    """Whom the server's certificate names, seen by a new connection that is also served."""
    async with connected(address, tls=anything_goes()) as connection:
        assert await is_served(connection)
        assert connection._tls is not None
        return common_name(connection._tls._object.getpeercert(binary_form=True))


@pytest.mark.parametrize("proxy", [PROXY_V1, PROXY_V2], ids=["v1", "v2"])
@pytest.mark.parametrize("piece_size", [1, 7, 1000])
async def test_a_proxy_header_in_any_pieces_before_plain_frames_names_the_peer(
    proxy: bytes, piece_size: int
) -> None:
    accepted: list[Connection] = []
    stream = proxy + encode_frame(Command(code=ECHO, opaque=5))
    async with serving(endpoint_of(on_open=accepted.append)) as address, raw_peer(address) as peer:
        for start in range(0, len(stream), piece_size):
            await peer.send(stream[start : start + piece_size])
            await loop_turns(1)
        assert (await peer.receive()).opaque == 5
        assert accepted[0].peer == "192.0.2.7:40000"


@pytest.mark.parametrize("proxy", [PROXY_V1, PROXY_V2], ids=["v1", "v2"])
@pytest.mark.parametrize("is_torn", [False, True])
async def test_a_proxy_header_before_tls_names_the_peer(
    self_signed: Callable[[str], ServerTls], proxy: bytes, is_torn: bool
) -> None:
    accepted: list[Connection] = []
    endpoint = endpoint_of(tls=self_signed("enforcing"), on_open=accepted.append)
    async with serving(endpoint) as address, raw_peer(address) as peer:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        secret = anything_goes().wrap_bio(incoming, outgoing)
        with pytest.raises(ssl.SSLWantReadError):
            secret.do_handshake()
        hello = outgoing.read()
        pieces = (proxy[:10], proxy[10:], hello[:1], hello[1:]) if is_torn else (proxy + hello,)
        for piece in pieces:
            await peer.send(piece)
            await loop_turns(2)
        while True:
            try:
                secret.do_handshake()
                break
            except ssl.SSLWantReadError:
                incoming.write(await peer.receive_bytes())
        secret.write(encode_frame(Command(code=ECHO)))
        await peer.send(outgoing.read())
        plain = b""
        while not plain:
            incoming.write(await peer.receive_bytes())
            try:
                plain = secret.read(4096)
            except ssl.SSLWantReadError:
                continue

        assert b'"flag":1' in plain
        assert accepted[0].peer == "192.0.2.7:40000"


async def test_a_handshake_that_is_not_finished_is_waited_for_only_so_long(
    self_signed: Callable[[str], ServerTls],
) -> None:
    endpoint = endpoint_of(tls=self_signed("permissive"), preface_max_s=0.05)
    async with serving(endpoint) as address, raw_peer(address) as peer:
        await peer.send(b"\x16\x03\x01\x02\x00\x01\x00")

        assert await peer.received_until_hung_up() == b""


async def test_a_stop_during_a_handshake_ends_it(self_signed: Callable[[str], ServerTls]) -> None:
    endpoint = endpoint_of(tls=self_signed("permissive"), stop_grace_s=60)
    async with asyncio.timeout(15):
        async with serving(endpoint) as address, raw_peer(address) as peer:
            await peer.send(b"\x16\x03\x01\x02\x00\x01\x00")
            await until(lambda: any(c._tls is not None for c in endpoint.connections))
    assert endpoint.connections == set()


async def test_garbage_instead_of_a_handshake_ends_only_its_connection(
    self_signed: Callable[[str], ServerTls],
) -> None:
    async with (
        serving(endpoint_of(tls=self_signed("permissive"))) as address,
        connected(address, tls=anything_goes()) as good,
        raw_peer(address) as bad,
    ):
        await bad.send(b"\x16" + os.urandom(100))
        await bad.received_until_hung_up()

        assert await is_served(good)


async def test_an_orderly_end_of_tls_is_an_end_for_both(
    self_signed: Callable[[str], ServerTls],
) -> None:
    endpoint = endpoint_of(tls=self_signed("enforcing"))
    async with serving(endpoint) as address, connected(address, tls=anything_goes()) as connection:
        assert await is_served(connection)
        connection.close()
        await connection.closed
        await until(lambda: not endpoint.connections)


async def test_a_server_without_cryptography_says_why_and_serves_plain_peers_on(
    monkeypatch: pytest.MonkeyPatch,
    self_signed: Callable[[str], ServerTls],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    async with serving(endpoint_of(tls=self_signed("permissive"))) as address:
        with pytest.raises(ConnectFailed):
            await connect(*address, endpoint_of(), tls=anything_goes())
        async with connected(address) as plain:
            assert await is_served(plain)

    assert "emberq[tls]" in caplog.text
