"""Tells the members of a group that they should share out their queues again (40).

All that happens to a group in one turn of the loop is told once: when a rack of consumers
connects, each of them need not hear of all the others one by one.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.members import ConsumerGroup, Consumers, GroupEvent
from emberq.errors import RemotingError
from emberq.model.subscription import MessageModel
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.remoting.connection import Connection

log = logging.getLogger(__name__)


class ChangeNotices:
    def __init__(
        self, consumers: Consumers, groups: Groups, config: Callable[[], BrokerConfig]
    ) -> None:
        self._consumers = consumers
        self._groups = groups
        self._config = config
        self._changed: set[str] = set()

    def group_changed(self, group: ConsumerGroup, event: GroupEvent) -> None:
        """Listens to the members; the notices leave in the loop's next turn."""
        if event is GroupEvent.EMPTIED or not self._is_wanted(group):
            return
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._send)
        self._changed.add(group.name)

    def _is_wanted(self, group: ConsumerGroup) -> bool:
        # Members of a broadcasting group share nothing.
        if group.message_model is MessageModel.BROADCASTING:
            return False
        if not self._config().notify_consumer_ids_changed_enable:
            return False
        settings = self._groups.get(group.name)
        return settings is None or settings.is_change_notified

    def _send(self) -> None:
        changed, self._changed = self._changed, set()
        for name in changed:
            group = self._consumers.get(name)
            if group is None:
                continue
            for connection in group.members:
                _notify(cast(Connection, connection), name)


def _notify(connection: Connection, group: str) -> None:
    request = new_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})
    try:
        connection.send_oneway(request)
    except RemotingError as error:  # it is going, or does not read; it asks again by itself
        log.debug("notice_dropped peer=%s group=%s reason=%s", connection.peer, group, error)
