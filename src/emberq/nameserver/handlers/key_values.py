"""The key-value table (100, 101, 102, 219)."""

import logging
from collections.abc import Callable

from emberq.nameserver.kv_store import KeyValueStore
from emberq.nameserver.kv_table import KeyValueTable
from emberq.protocol.bodies import routes
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry

log = logging.getLogger(__name__)


class KeyValueHandlers:
    def __init__(self, store: KeyValueStore, on_change: Callable[[], None]) -> None:
        self._store = store
        self._on_change = on_change

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.PUT_KV_CONFIG, self.put)
        registry.add(RequestCode.GET_KV_CONFIG, self.get)
        registry.add(RequestCode.DELETE_KV_CONFIG, self.delete)
        registry.add(RequestCode.GET_KVLIST_BY_NAMESPACE, self.list)

    async def put(self, command: Command, connection: Connection) -> Command:
        namespace, key, value = _texts(command, "namespace", "key", "value")
        if namespace is None or key is None:
            return answer(command, ResponseCode.SYSTEM_ERROR, "namespace or key is null")
        if value is None:
            # Official name servers store a null, which reads as absent from then on.
            return await self._change(command, lambda table: table.without(namespace, key))
        log.info("kv_put peer=%s namespace=%s key=%s", connection.peer, namespace, key)
        return await self._change(command, lambda table: table.with_value(namespace, key, value))

    async def delete(self, command: Command, connection: Connection) -> Command:
        namespace, key = _texts(command, "namespace", "key")
        if namespace is None or key is None:
            return answer(command)
        log.info("kv_delete peer=%s namespace=%s key=%s", connection.peer, namespace, key)
        return await self._change(command, lambda table: table.without(namespace, key))

    def get(self, command: Command, _: Connection) -> Command:
        namespace, key = _texts(command, "namespace", "key")
        value = None
        if namespace is not None and key is not None:
            value = self._store.table.get(namespace, key)
        if value is None:
            remark = f"No config item, Namespace: {_shown(namespace)} Key: {_shown(key)}"
            return answer(command, ResponseCode.QUERY_NOT_FOUND, remark, {})
        return answer(command, fields={"value": value})

    def list(self, command: Command, _: Connection) -> Command:
        (namespace,) = _texts(command, "namespace")
        entries = None if namespace is None else self._store.table.list(namespace)
        if entries is None:
            remark = f"No config item, Namespace: {_shown(namespace)}"
            return answer(command, ResponseCode.QUERY_NOT_FOUND, remark)
        return answer(command, body=encode_body(routes.KeyValueTable(table=entries)))

    async def _change(
        self, command: Command, step: Callable[[KeyValueTable], KeyValueTable]
    ) -> Command:
        try:
            await self._store.change(step)
        except OSError as error:
            log.error("kv_not_stored reason=%s", error)  # noqa: TRY400 - the operator knows why
            remark = f"the key-value table could not be stored: {error.strerror or error}"
            return answer(command, ResponseCode.SYSTEM_ERROR, remark)
        self._on_change()
        return answer(command)


def _texts(command: Command, *names: str) -> tuple[str | None, ...]:
    fields = command.fields or {}
    return tuple(fields.get(name) for name in names)


def _shown(text: str | None) -> str:
    return "null" if text is None else text
