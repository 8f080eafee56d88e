"""Tells the members of a broker group that their smallest id changed (905, oneway)."""

import asyncio
import logging

from msgspec.structs import replace

from emberq.errors import RemotingError
from emberq.nameserver.route_table import MinBrokerIdChange
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.protocol.header_fields import to_fields
from emberq.protocol.headers.nameserver import NotifyMinBrokerIdChange
from emberq.remoting.client import connect
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.limits import RemotingLimits

log = logging.getLogger(__name__)

NOTICE_TIMEOUT_S = 0.3


class MinIdNotices:
    """Sends notices in the background; a broker that cannot be reached will register anyway."""

    def __init__(self) -> None:
        limits = replace(RemotingLimits(), connect_timeout_s=NOTICE_TIMEOUT_S)
        self._endpoint = Endpoint(limits=limits)
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, change: MinBrokerIdChange) -> None:
        for address in change.member_addresses:
            task = asyncio.get_running_loop().create_task(self._tell(address, change))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _tell(self, address: str, change: MinBrokerIdChange) -> None:
        host, _, port = address.rpartition(":")
        header = NotifyMinBrokerIdChange(
            min_broker_id=change.min_id,
            min_broker_address=change.min_address,
            offline_broker_address=change.offline_address,
            ha_broker_address=change.ha_address,
        )
        try:
            connection = await connect(host.strip("[]"), int(port), self._endpoint)
            connection.send_oneway(
                new_request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, to_fields(header))
            )
            connection.close()
            await asyncio.wait_for(asyncio.shield(connection.closed), NOTICE_TIMEOUT_S)
        except (RemotingError, ValueError, TimeoutError) as error:
            log.info("min_id_notice_failed address=%s reason=%s", address, error)
