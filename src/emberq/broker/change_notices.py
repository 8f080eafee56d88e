"""Tells the members of a group that they should share out their queues again (40).

All that happens to a group in one turn of the loop is told once, and a large group rests a while
before it is told again: when a rack of a thousand consumers connects, each of them need not hear
of all the others one by one.
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

# A notice costs some 10 µs: so one group takes a twentieth of the loop's time at most.
REST_PER_MEMBER_S = 0.0002
# With realTimeNotifyConsumerChange=false.
DELAYED_S = 15.0


class ChangeNotices:
    def __init__(
        self, consumers: Consumers, groups: Groups, config: Callable[[], BrokerConfig]
    ) -> None:
        self._consumers = consumers
        self._groups = groups
        self._config = config
        # Groups that will be told, and those that were told just now.
        self._changed: set[str] = set()
        self._resting: set[str] = set()

    def group_changed(self, group: ConsumerGroup, event: GroupEvent) -> None:
        """Listens to the members; the notices leave in the loop's next turn."""
        name = group.name
        if event is GroupEvent.EMPTIED or name in self._changed or not self._is_wanted(group):
            return
        self._changed.add(name)
        if name in self._resting:
            return
        loop = asyncio.get_running_loop()
        if self._config().real_time_notify_consumer_change:
            loop.call_soon(self._tell, name)
        else:
            loop.call_later(DELAYED_S, self._tell, name)

    def _is_wanted(self, group: ConsumerGroup) -> bool:
        # Members of a broadcasting group share nothing.
        if group.message_model is MessageModel.BROADCASTING:
            return False
        if not self._config().notify_consumer_ids_changed_enable:
            return False
        settings = self._groups.get(group.name)
        return settings is None or settings.is_change_notified

    def _tell(self, name: str) -> None:
        self._changed.discard(name)
        group = self._consumers.get(name)
        if group is None:
            return
        for connection in group.members:
            _notify(cast(Connection, connection), name)
        self._resting.add(name)
        rest_s = len(group.members) * REST_PER_MEMBER_S
        asyncio.get_running_loop().call_later(rest_s, self._rested, name)

    def _rested(self, name: str) -> None:
        self._resting.discard(name)
        if name in self._changed:
            self._tell(name)


def _notify(connection: Connection, group: str) -> None:
    request = new_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})
    try:
        connection.send_oneway(request)
    except RemotingError as error:  # it is going, or does not read; it asks again by itself
        log.debug("notice_dropped peer=%s group=%s reason=%s", connection.peer, group, error)
