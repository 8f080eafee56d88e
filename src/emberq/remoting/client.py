"""Makes connections."""

import asyncio
import ssl

from emberq.errors import ConnectFailed
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint, check_port
from emberq.remoting.tls_channel import TlsChannel


async def connect(
    host: str, port: int, endpoint: Endpoint, *, tls: ssl.SSLContext | None = None
) -> Connection:
    """Connect within the endpoint's time limit, TLS handshake included.

    Raises:
        ConnectFailed: nobody listens there, or not in time, or TLS was refused. (With TLS 1.3 a
            server refuses a client's certificate only after that: the first call fails.)
    """
    loop = asyncio.get_running_loop()
    connection: Connection | None = None

    def new_connection() -> Connection:
        nonlocal connection
        channel = None
        if tls is not None:
            channel = TlsChannel(tls, server_side=False, server_name=host)
        connection = Connection(endpoint, is_accepted=False, client_tls=channel)
        return connection

    try:
        check_port(port)
        async with asyncio.timeout(endpoint.limits.connect_timeout_s):
            try:
                _, connection = await loop.create_connection(new_connection, host, port)
                await connection.established
            except BaseException:  # the time limit, or the caller was cancelled
                if connection is not None:
                    connection.abandon()
                raise
    except TimeoutError:
        raise ConnectFailed(
            f"no connection to {host}:{port} within {endpoint.limits.connect_timeout_s:g} s"
        ) from None
    except (OSError, ValueError) as error:  # the second: no port, no host name
        reason = getattr(error, "strerror", None) or error
        raise ConnectFailed(f"no connection to {host}:{port}: {reason}") from None
    if connection.is_closed:
        reason = connection.close_reason or "closed at once by the peer"
        raise ConnectFailed(f"no connection to {host}:{port}: {reason}")
    return connection
