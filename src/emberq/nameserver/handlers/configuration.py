"""The name server's own configuration (318, 319)."""

import logging
from collections.abc import Callable

from emberq.errors import ConfigError, ProtocolError
from emberq.nameserver.config import unknown_key_warnings
from emberq.nameserver.settings import Settings
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.properties_text import read_properties
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry

log = logging.getLogger(__name__)


class ConfigurationHandlers:
    def __init__(self, settings: Settings, on_change: Callable[[], None]) -> None:
        self._settings = settings
        self._on_change = on_change

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.UPDATE_NAMESRV_CONFIG, self.update)
        registry.add(RequestCode.GET_NAMESRV_CONFIG, self.get)

    def get(self, command: Command, _: Connection) -> Command:
        return answer(command, body=self._settings.text())

    async def update(self, command: Command, connection: Connection) -> Command:
        try:
            changes = read_properties(command.body)
        except ProtocolError as error:
            return answer(command, ResponseCode.SYSTEM_ERROR, f"unreadable properties: {error}")
        if changes.keys() & self._settings.config.black_list:
            return answer(
                command, ResponseCode.NO_PERMISSION, "Can not update config in black list."
            )
        warnings = unknown_key_warnings(changes)
        for warning in warnings:
            log.warning("config_update peer=%s %s", connection.peer, warning)
        if len(warnings) == len(changes):
            return answer(command)  # nothing of it is ours
        try:
            await self._settings.update(changes)
        except ConfigError as error:
            return answer(command, ResponseCode.SYSTEM_ERROR, str(error))
        except OSError as error:
            log.error("config_not_stored reason=%s", error)  # noqa: TRY400 - not our bug
            remark = f"the configuration could not be stored: {error.strerror or error}"
            return answer(command, ResponseCode.SYSTEM_ERROR, remark)
        log.info("config_updated peer=%s keys=%s", connection.peer, ",".join(sorted(changes)))
        self._on_change()
        return answer(command)
