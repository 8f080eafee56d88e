"""Makes connections."""

import asyncio
import ssl

from emberq.errors import ConnectFailed
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.tls_channel import TlsChannel


async def connect(
    host: str, port: int, endpoint: Endpoint, *, tls: ssl.SSLContext | None = None
) -> Connection:
    """Connect within the endpoint's time limit, TLS handshake included.

    Raises:
        ConnectFailed: nobody listens there, or not in time, or TLS was refused.
    """
    loop = asyncio.get_running_loop()

    def new_connection() -> Connection:
        channel = None
        if tls is not None:
            channel = TlsChannel(tls, server_side=False, server_name=host)
        return Connection(endpoint, is_accepted=False, client_tls=channel)

    connection: Connection | None = None
    try:
        async with asyncio.timeout(endpoint.limits.connect_timeout_s):
            _, connection = await loop.create_connection(new_connection, host, port)
            await connection.established
    except TimeoutError:
        if connection is not None:
            connection.abort()
        raise ConnectFailed(
            f"no connection to {host}:{port} within {endpoint.limits.connect_timeout_s:g} s"
        ) from None
    except OSError as error:
        raise ConnectFailed(f"no connection to {host}:{port}: {error.strerror or error}") from None
    if connection.is_closed:
        raise ConnectFailed(f"{host}:{port} closed the connection at once")
    return connection
