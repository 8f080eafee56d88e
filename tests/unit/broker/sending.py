"""The handlers that store messages, on a real store and without a network."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from emberq.broker.appending import Appender
from emberq.broker.config import BrokerConfig
from emberq.broker.delay_levels import parse_delay_levels
from emberq.broker.groups import Groups
from emberq.broker.handlers.send import SendHandler
from emberq.broker.offsets import ConsumerOffsets
from emberq.broker.settings import Settings
from emberq.broker.timed_messages import TimedMessages
from emberq.broker.topics import Topics
from emberq.broker.transactions.counts import TransactionCounts
from emberq.broker.transactions.half_queue import HalfQueue
from emberq.errors import RequestRejected
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer, new_request
from emberq.protocol.frame import parse_frame
from emberq.record.batch import encode_batch_element
from emberq.record.decode import decode_record
from emberq.record.host import PackedHost, pack_host
from emberq.record.properties import decode_properties, format_properties
from emberq.record.record import Record
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer, HandlerRegistry
from emberq.store.message_store import MessageStore
from emberq.store.tag_codes import TagCodes
from tests.support.stores import HOST, Clock, store_config

BROKER_IP = "10.1.2.3"
BORN_HOST = pack_host("192.0.2.7", 40_000)
REGION_FIELDS = {"TRACE_ON": "true", "MSG_REGION": "DefaultRegion"}


class Peer:
    """As much of a connection as handlers look at."""

    peer = "192.0.2.7:40000"

    def __init__(self, packed_peer: PackedHost = BORN_HOST) -> None:
        self.packed_peer = packed_peer
        self.requests_in_flight = 0
        self.answered: list[Command] = []

    def send_answer(self, request: Command, response: Command | bytes) -> None:
        del request
        self.answered.append(parse_frame(response) if isinstance(response, bytes) else response)


class Counted:
    """Statistics that remember."""

    def __init__(self) -> None:
        self.puts: list[tuple[str, int, int, int]] = []
        self.failed_count = 0
        self.waits_ms: list[int] = []
        self.gets: list[tuple[str, str, int, int, int]] = []
        self.send_backs: list[tuple[str, str]] = []

    def count_put(self, topic: str, queue_id: int, count: int, size: int, time_ms: int = 0) -> None:
        del time_ms
        self.puts.append((topic, queue_id, count, size))

    def count_put_failed(self) -> None:
        self.failed_count += 1

    def count_put_wait_ms(self, topic: str, queue_id: str, time_ms: int) -> None:
        self.waits_ms.append(time_ms)

    def count_get(
        self, group: str, topic: str, queue_id: int, count: int, size: int, time_ms: int = 0
    ) -> None:
        del time_ms
        self.gets.append((group, topic, queue_id, count, size))

    def count_send_back(self, group: str, topic: str) -> None:
        self.send_backs.append((group, topic))


class Sending:
    """A broker's sending half."""

    def __init__(self, store: MessageStore, clock: Clock, config: BrokerConfig) -> None:
        self.store = store
        self.clock = clock
        self.settings = Settings(config, store.config)
        self.topics = Topics(config, now_ms=clock)
        self.groups = Groups(
            is_auto_created=lambda: self.settings.config.auto_create_subscription_group,
            now_ms=clock,
        )
        self.statistics = Counted()
        self.peer = Peer()
        self.ordered_groups: set[str] = set()
        self.appender = Appender(
            store.put,
            parse_delay_levels(config.message_delay_level),
            TimedMessages(lambda: self.settings.config, None, 1_000, clock),
        )
        self.offsets = ConsumerOffsets(clock)
        self.counts = TransactionCounts(clock)
        self.halves = self.new_half_queue()
        self.keys_made = 0
        self.registry = HandlerRegistry()
        self.handler = SendHandler(
            settings=self.settings,
            topics=self.topics,
            groups=self.groups,
            store=store,
            store_host=HOST,
            appender=self.appender,
            halves=self.halves,
            broker_ip=BROKER_IP,
            statistics=self.statistics,
            has_order_locks=self.ordered_groups.__contains__,
            new_unique_key=self._new_key,
            now_ms=clock,
        )
        self.handler.add_to(self.registry)

    def new_half_queue(self) -> HalfQueue:
        """As a broker makes one when it starts on this store."""
        return HalfQueue(
            self.store,
            self.appender,
            self.offsets,
            self.counts,
            self.statistics,
            broker_host=HOST,
            operation_size_max=lambda: self.settings.config.transaction_op_msg_max_size,
            now_ms=self.clock,
        )

    def _new_key(self) -> str:
        self.keys_made += 1
        return f"KEY{self.keys_made}"

    def configure(self, **changes: Any) -> None:
        """Change the configuration as an update does, without its file."""
        self.settings.config = replace(self.settings.config, **changes)
        for listener in self.settings._listeners:
            listener(self.settings.config)

    def serve(self, command: Command) -> Command | None:
        """As the dispatcher does: a refusal becomes an answer."""
        entry = self.registry.get(command.code)
        assert entry is not None
        try:
            result: Answer = entry.handle(command, cast(Connection, self.peer))
        except RequestRejected as error:
            return answer(command, error.code, error.remark, error.fields)
        assert not isinstance(result, list), "sends have no answers in parts"
        return parse_frame(result) if isinstance(result, bytes) else result

    def send(self, topic: str = "Orders", body: bytes = b"hello", **changes: Any) -> Command:
        """The answer to a send that is answered at once."""
        response = self.serve(send_request(topic, body, **changes))
        assert response is not None
        return response

    def record_of(self, response: Command, index: int = 0) -> Record:
        """What is in the log under an answer's message id."""
        assert response.code == 0, response
        assert response.fields is not None
        message_id = response.fields["msgId"].split(",")[index]
        content = self.store.record_at(int(message_id[-16:], 16))
        assert content is not None
        return decode_record(content)

    def properties_of(self, response: Command, index: int = 0) -> dict[str, str]:
        return decode_properties(self.record_of(response, index).properties)


def send_request(
    topic: str = "Orders",
    body: bytes = b"hello",
    properties: dict[str, str] | str = "",
    *,
    code: RequestCode = RequestCode.SEND_MESSAGE_V2,
    queue_id: int = 0,
    system_flag: int = 0,
    flag: int = 0,
    version: int = 513,
    command_flag: int = 0,
    without: str = "",
    **fields: str,
) -> Command:
    text = properties if isinstance(properties, str) else format_properties(properties)
    values = {
        "a": "PG",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": str(system_flag),
        "g": "1700000000123",
        "h": str(flag),
        "i": text,
        "j": "0",
        "k": "false",
        "m": "true" if code == RequestCode.SEND_BATCH_MESSAGE else "false",
        **fields,
    }
    for name in without:
        del values[name]
    command = new_request(code, values, body, version=version)
    command.flag = command_flag
    return command


def batch_request(*bodies: bytes, topic: str = "Orders", **changes: Any) -> Command:
    body = b"".join(encode_batch_element(body, b"TAGS\x01a\x02KEYS\x01k") for body in bodies)
    return send_request(topic, body, code=RequestCode.SEND_BATCH_MESSAGE, **changes)


@contextmanager
def sending(
    root: Path, config: dict[str, Any] | None = None, **store_changes: Any
) -> Iterator[Sending]:
    clock = Clock()
    settings = BrokerConfig(**{"broker_name": "broker-a", **(config or {})})
    store = MessageStore(
        store_config(root, **store_changes),
        store_host=HOST,
        now_ms=clock,
        tag_codes=TagCodes(parse_delay_levels(settings.message_delay_level).delays_ms),
    )
    store.open()
    try:
        yield Sending(store, clock, settings)
    finally:
        store.close()
