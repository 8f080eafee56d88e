"""Cluster-test mode: routes that are not here are asked for in the product environment."""

import asyncio
import logging

from emberq.errors import ConfigError, RemotingError
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import new_request
from emberq.remoting.address_lookup import look_up
from emberq.remoting.addresses import split_address
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint

log = logging.getLogger(__name__)

CALL_TIMEOUT_S = 3.0


class ProductEnvironment:
    """Asks one of the product environment's name servers, whichever answers."""

    def __init__(self, addresses: list[str], url: str) -> None:
        self._addresses = addresses
        self._url = url
        self._endpoint = Endpoint()
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()

    async def route_body(self, topic: str) -> bytes | None:
        try:
            connection = await self._connected()
            request = new_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            response = await connection.call(request, CALL_TIMEOUT_S)
        except (RemotingError, ConfigError) as error:
            log.warning("product_environment_failed topic=%s reason=%s", topic, error)
            return None
        return response.body if response.code == ResponseCode.SUCCESS else None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is not None and not self._connection.is_closed:
                return self._connection
            addresses = self._addresses or await asyncio.to_thread(look_up, self._url)
            failure: Exception = RemotingError("no name server address is known")
            for address in addresses:
                try:
                    self._connection = await connect(*split_address(address), self._endpoint)
                except (RemotingError, ConfigError) as error:
                    failure = error
                else:
                    return self._connection
            raise failure
