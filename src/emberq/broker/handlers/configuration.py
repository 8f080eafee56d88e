"""The broker's own configuration (25, 26)."""

import logging
from collections.abc import Callable

from emberq.broker.addresses import BrokerAddresses
from emberq.broker.config import unknown_key_warnings
from emberq.broker.settings import Settings
from emberq.errors import ConfigError, ProtocolError
from emberq.model.data_version import DataVersion
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.properties_text import read_properties
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry

log = logging.getLogger(__name__)


class ConfigurationHandlers:
    def __init__(
        self, settings: Settings, addresses: BrokerAddresses, now_ms: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._in_force = {
            "brokerIP1": addresses.ip,
            "brokerIP2": addresses.ha_ip,
            "listenPort": str(addresses.port),
            "haListenPort": str(addresses.ha_port),
        }
        self._now_ms = now_ms
        self._version = DataVersion(timestamp_ms=now_ms())

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.UPDATE_BROKER_CONFIG, self.update)
        registry.add(RequestCode.GET_BROKER_CONFIG, self.get)

    def get(self, command: Command, _: Connection) -> Command:
        fields = {"version": encode_body(self._version).decode()}
        return answer(command, fields=fields, body=self._settings.text(self._in_force))

    async def update(self, command: Command, connection: Connection) -> Command:
        """A value that cannot be read refuses all of them; official brokers pass over it."""
        try:
            changes = read_properties(command.body)
        except ProtocolError:
            return answer(command, ResponseCode.SYSTEM_ERROR, "string2Properties error")
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
        self._version = self._version.next(self._now_ms())
        log.info("config_updated peer=%s keys=%s", connection.peer, ",".join(sorted(changes)))
        return answer(command)
