"""All handlers of a name server without a network: a request in, its answer out."""

from collections.abc import Mapping
from inspect import isawaitable
from pathlib import Path
from typing import cast

from emberq.errors import RequestRejected
from emberq.model.data_version import DataVersion
from emberq.model.topic import TopicConfig
from emberq.nameserver.config import NameServerConfig
from emberq.nameserver.departures import Departures
from emberq.nameserver.handlers.routes import AskElsewhere
from emberq.nameserver.kv_store import KeyValueStore
from emberq.nameserver.kv_table import KeyValueTable
from emberq.nameserver.route_table import RouteTable
from emberq.nameserver.server import name_server_handlers
from emberq.nameserver.settings import Settings
from emberq.protocol.bodies.registration import RegisterBrokerBody, encode_registration
from emberq.protocol.bodies.topics import TopicTable
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer, new_request
from emberq.protocol.frame import parse_frame
from emberq.protocol.versions import CURRENT
from emberq.remoting.connection import Connection
from emberq.testing.local_nameserver import Broker


class Peer:
    """As much of a connection as handlers look at."""

    peer = "10.0.0.1:4711"

    def __init__(self) -> None:
        self.session: object = None


class Serving:
    def __init__(
        self, home: Path, ask_elsewhere: AskElsewhere | None = None, **config: object
    ) -> None:
        self.settings = Settings(
            NameServerConfig(
                **{
                    "config_store_path": str(home / "namesrv.conf"),
                    "kv_config_path": str(home / "kvConfig.json"),
                    **config,
                }  # type: ignore[arg-type]  # names and types are the caller's
            )
        )
        self.store = KeyValueStore(Path(self.settings.config.kv_config_path), KeyValueTable())
        self.table = RouteTable()
        self.departures = Departures(
            self.table, lambda: self.settings.config.un_register_broker_queue_capacity
        )
        self.registry = name_server_handlers(
            self.settings, self.store, self.table, self.departures, ask_elsewhere
        )
        self.peer = Peer()

    async def call(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = CURRENT,
        peer: Peer | None = None,
    ) -> Command:
        command = new_request(code, dict(fields or {}), body, version=version)
        entry = self.registry.get(code)
        assert entry is not None
        try:
            result = entry.handle(command, cast(Connection, peer or self.peer))
            if isawaitable(result):
                result = await result
        except RequestRejected as rejected:
            return answer(command, rejected.code, rejected.remark, rejected.fields)
        if isinstance(result, bytes):
            result = parse_frame(result)
        assert isinstance(result, Command)
        return result

    async def register(
        self,
        broker: Broker,
        *topics: TopicConfig,
        peer: Peer | None = None,
        counter: int = 1,
        **fields: str,
    ) -> Command:
        table = TopicTable(
            data_version=DataVersion(counter=counter),
            topics={topic.name: topic for topic in topics},
        )
        body = encode_registration(RegisterBrokerBody(topic_table=table), is_compressed=False)
        return await self.call(
            RequestCode.REGISTER_BROKER, {**broker.fields(), **fields}, body, peer=peer
        )
