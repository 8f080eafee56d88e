"""Consumer groups as administrators see them (200, 225, 201, 352, 353, 207)."""

import logging
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from emberq.broker.attributes import GROUP_ATTRIBUTES, changed_attributes
from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups, group_name_trouble
from emberq.broker.handlers.paging import is_version, page_of
from emberq.broker.persistence import Persistence
from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.topics import topic_name_trouble
from emberq.errors import RequestRejected
from emberq.model.group import GroupConfig
from emberq.model.topic import QUEUE_COUNT_MAX
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.groups import GroupForbidden, GroupList, GroupTable
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.headers.subscription_groups import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroupConfig,
    GetSubscriptionGroupConfig,
    UpdateAndGetGroupForbidden,
)
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry, Request

log = logging.getLogger(__name__)

# The bit of what is forbidden to a group that stands for reading.
READ_FORBIDDEN_INDEX = 2


class GroupOffsets(Protocol):
    def remove_group(self, group: str) -> None: ...


class AdminGroupHandlers:
    def __init__(
        self,
        *,
        groups: Groups,
        offsets: GroupOffsets,
        statistics: BrokerStatistics,
        persistence: Persistence,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._statistics = statistics
        self._persistence = persistence
        self._config = config

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, self.put)
        registry.add(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, self.put_list)
        registry.add_typed(GetAllSubscriptionGroupConfig, self.get_all)
        registry.add_typed(GetSubscriptionGroupConfig, self.get)
        registry.add_typed(UpdateAndGetGroupForbidden, self.forbid)
        registry.add_typed(DeleteSubscriptionGroup, self.delete)

    async def put(self, command: Command, connection: Connection) -> Command:
        """Without a group there is nothing to do; official brokers do not mind."""
        if not command.body:
            return answer(command)
        return await self._put_all(command, connection, [decode_body(GroupConfig, command.body)])

    async def put_list(self, command: Command, connection: Connection) -> Command:
        groups = decode_body(GroupList, command.body).groups
        if groups is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "groupConfigList is missing")
        return await self._put_all(command, connection, groups)

    def get_all(self, request: Request[GetAllSubscriptionGroupConfig]) -> Command:
        header = request.header
        table = self._groups.table()
        groups = page_of(
            table.groups,
            first=header.start_index,
            count_max=header.max_group_count,
            is_same_table=is_version(header.data_version, table.data_version),
        )
        body = GroupTable(data_version=table.data_version, forbidden=table.forbidden, groups=groups)
        fields = {"totalGroupNum": str(len(table.groups))}
        return answer(request.command, fields=fields, body=encode_body(body))

    def get(self, request: Request[GetSubscriptionGroupConfig]) -> Command:
        """To ask for a group makes it, where groups come into being by themselves."""
        group = self._groups.find(request.header.group)
        if group is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker"
            )
        return answer(request.command, body=encode_body(group))

    async def forbid(self, request: Request[UpdateAndGetGroupForbidden]) -> Command:
        header = request.header
        if header.is_readable is not None:
            # Official brokers keep any two texts; one that cannot be written would spoil the file.
            trouble = group_name_trouble(header.group) or topic_name_trouble(header.topic)
            if trouble is not None:
                raise RequestRejected(ResponseCode.INVALID_PARAMETER, trouble)
            self._groups.set_forbidden(
                header.group, header.topic, READ_FORBIDDEN_INDEX, not header.is_readable
            )
            await self._save()
        is_forbidden = self._groups.is_forbidden(header.group, header.topic, READ_FORBIDDEN_INDEX)
        body = GroupForbidden(group=header.group, topic=header.topic, is_readable=not is_forbidden)
        return answer(request.command, remark="", body=encode_body(body))

    async def delete(self, request: Request[DeleteSubscriptionGroup]) -> Command:
        """Official brokers answer success for a group that is not there."""
        name = request.header.group_name
        log.info("group_delete peer=%s group=%s", request.connection.peer, name)
        self._groups.remove(name)
        if request.header.forgets_offsets:
            self._offsets.remove_group(name)
        if self._config().auto_delete_unused_stats:
            self._statistics.forget_group(name)
        await self._save()
        return answer(request.command)

    async def _put_all(
        self, command: Command, connection: Connection, changes: list[GroupConfig]
    ) -> Command:
        """All of them or none."""
        groups = [self._changed(change) for change in changes]
        for group in groups:
            if self._groups.put(group):
                log.info("group_put peer=%s group=%s", connection.peer, group.name)
        await self._save()
        return answer(command)

    def _changed(self, change: GroupConfig) -> GroupConfig:
        """What a group will be: the attributes of the request are changes of those it has."""
        trouble = group_name_trouble(change.name)
        if trouble is not None:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, trouble)
        if change.retry_queue_count > QUEUE_COUNT_MAX:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"a retry topic has at most {QUEUE_COUNT_MAX} queues",
            )
        known = self._groups.get(change.name)
        current = None if known is None else known.attributes
        attributes = changed_attributes(GROUP_ATTRIBUTES, current, change.attributes)
        return replace(change, attributes=attributes)

    async def _save(self) -> None:
        try:
            await self._persistence.save_now("groups")
        except OSError as error:
            log.error("groups_not_stored reason=%s", error)  # noqa: TRY400 - not our bug
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"the groups could not be stored: {error.strerror or error}",
            ) from None
