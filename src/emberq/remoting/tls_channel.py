"""TLS over bytes: feed it what the peer sent, take the plain text and what must go back.

asyncio's own TLS begins with the first byte of a connection; here it may begin after a PROXY
line or not at all, decided by what arrives. So the connection keeps the transport and this
object keeps the secrets.
"""

import ssl

from emberq.errors import ProtocolError

_READ_SIZE_BYTES = 256 * 1024


class TlsChannel:
    """One side of a TLS conversation, without a socket."""

    __slots__ = ("_incoming", "_object", "_outgoing", "is_established", "is_finished")

    def __init__(
        self, context: ssl.SSLContext, *, server_side: bool, server_name: str | None = None
    ) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_name
        )
        self.is_established = False
        self.is_finished = False  # the peer said goodbye

    def receive(self, encrypted: bytes) -> bytes:
        """The plain text that `encrypted` completes; answers of the protocol wait in `output`.

        Raises:
            ProtocolError: not TLS, or the peer's certificate is not accepted.
        """
        self._incoming.write(encrypted)
        try:
            if not self.is_established:
                self._object.do_handshake()
                self.is_established = True
            return self._read_all()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            raise ProtocolError(f"TLS failed: {error.reason or error}") from None

    def send(self, plain: bytes) -> None:
        """Encrypt bytes for `output`. Raises ProtocolError when the conversation is over."""
        try:
            self._object.write(plain)
        except ssl.SSLError as error:
            raise ProtocolError(f"TLS failed: {error.reason or error}") from None

    def output(self) -> bytes:
        """Bytes for the peer, empty when there are none."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def start(self) -> None:
        """Client side: begin the handshake; its first message waits in `output`."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return

    def say_goodbye(self) -> None:
        try:
            self._object.unwrap()
        except (ssl.SSLError, ValueError, OSError):
            return  # the peer is not there any more, or never got so far

    def _read_all(self) -> bytes:
        parts: list[bytes] = []
        while True:
            try:
                part = self._object.read(_READ_SIZE_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                part = b""
            if not part:
                self.is_finished = True
                break
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
