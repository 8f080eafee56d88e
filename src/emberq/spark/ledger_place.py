"""Which broker has the ledger: one, for ever, though routes do not show a broker that is away.

So its name is written down in the key-value table of the name servers, which official ones have as
well, before anything is committed. docs/formats/sink-ledger.md.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping

from msgspec import Struct

from emberq.client.aio.producer import Producer
from emberq.client.aio.queue_calls import QueueCalls
from emberq.errors import (
    BrokerError,
    BrokerNotFound,
    ClientError,
    NoNameServer,
    RemotingError,
    TopicNotFound,
)
from emberq.model.queue import MessageQueue
from emberq.model.route import MASTER_ID, BrokerData
from emberq.model.system_topics import DEFAULT_TOPIC
from emberq.model.topic import READ_WRITE, TopicFilterType
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.routes import ClusterTable
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import new_request
from emberq.protocol.headers.nameserver import GetKvConfig, PutKvConfig
from emberq.protocol.headers.topics import UpdateAndCreateTopic
from emberq.spark.links import Link, looked_up_anew
from emberq.spark.row_sending import queues_for
from emberq.spark.sink_options import SinkOptions

log = logging.getLogger(__name__)

LEDGER_TOPIC = "EMBERQ_SPARK_LEDGER"
# Where name servers keep, under the topic's name, which broker has it.
PIN_NAMESPACE = "EMBERQ_SPARK"
# A topic that was just made is in routes a moment later.
ROUTED_WITHIN_S = 30.0
_POLL_FIRST_S, _POLL_MAX_S = 0.005, 0.5

Holders = Mapping[str, MessageQueue]


class Pins(Struct, frozen=True):
    """What the name servers have written down."""

    brokers: Collection[str]  # more than one: they contradict each other
    lacking: Collection[str]  # addresses of those that know of none
    silent: Collection[str]  # and of those that did not answer


class LedgerPlace:
    def __init__(self, link: Link, producer: Producer, options: SinkOptions) -> None:
        self._link = link
        self._producer = producer
        self._client = producer.client
        self._options = options
        self._topic = self._client.wrap(LEDGER_TOPIC)

    async def find(self, *, is_new_writer: bool) -> MessageQueue:
        """The ledger's queue. It is made if there is none, but only for a writer that is new: a
        ledger made anew knows nothing of what was committed.

        Raises:
            BrokerNotFound: its broker is away, or may be.
            NoNameServer: one of them does not answer, which may know of it.
            ClientError: several brokers have one, and nobody says which counts.
        """
        pins = await self._pins()
        holders = await self._holders()
        broker = self._pinned(pins)
        if broker is None and holders:
            broker = await self._in_use(holders)
        if broker is None:
            broker = await self._first_of_all(pins, is_new_writer=is_new_writer)
            await self._pin(broker, pins.lacking, is_needed=True)
            broker = self._pinned(await self._pins()) or broker  # another writer's came later
        elif pins.lacking:
            await self._pin(broker, pins.lacking, is_needed=False)
        if broker not in holders:
            holders = await self._make(broker, is_new_writer=is_new_writer)
        return holders[broker]

    # What is written down

    def _pinned(self, pins: Pins) -> str | None:
        """Raises ClientError."""
        if len(pins.brokers) > 1:
            raise ClientError(
                f"name servers do not agree which broker has {LEDGER_TOPIC}: "
                f"{', '.join(sorted(pins.brokers))}",
                hint=self._how_to_pin(),
            )
        return next(iter(pins.brokers), None)

    async def _pins(self) -> Pins:
        addresses = self._client.name_servers.addresses
        found = await asyncio.gather(*map(self._pin_at, addresses), return_exceptions=True)
        by_address = dict(zip(addresses, found, strict=True))
        for value in found:
            if isinstance(value, BaseException) and not isinstance(value, RemotingError):
                raise value
        return Pins(
            brokers={value for value in found if isinstance(value, str)},
            lacking=[address for address, value in by_address.items() if value is None],
            silent=[each for each, value in by_address.items() if isinstance(value, RemotingError)],
        )

    async def _pin_at(self, address: str) -> str | None:
        """Raises RemotingError."""
        header = GetKvConfig(namespace=PIN_NAMESPACE, key=self._topic)
        accepts = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        try:
            answer = await self._client.call(address, self._client.request(header), accepts=accepts)
        except BrokerError as error:
            log.debug("no_values_kept name_server=%s reason=%s", address, error)
            return None
        return (answer.fields or {}).get("value") or None

    async def _pin(self, broker: str, addresses: Collection[str], *, is_needed: bool) -> None:
        """Write down which broker it is.

        Raises:
            RemotingError: with `is_needed`, if one of them does not answer.
        """
        header = PutKvConfig(namespace=PIN_NAMESPACE, key=self._topic, value=broker)
        for address in addresses:
            try:
                await self._client.call(address, self._client.request(header))
            except (BrokerError, RemotingError) as error:
                if is_needed and isinstance(error, RemotingError):
                    raise
                log.warning("ledger_not_pinned name_server=%s reason=%s", address, error)
            else:
                log.info("ledger_pinned broker=%s name_server=%s", broker, address)

    def _how_to_pin(self) -> str:
        return f"Say which: mqadmin updateKvConfig -s {PIN_NAMESPACE} -k {self._topic} -v BROKER"

    # Where it is

    async def _holders(self) -> Holders:
        """The queue of each broker that has the topic and is there; as users name it."""
        try:
            await self._client.routes.refresh(self._topic)
            queues = await self._client.subscribe_queues(self._topic)
        except TopicNotFound:
            return {}
        holders: dict[str, MessageQueue] = {}
        for queue in sorted(queues):
            holders.setdefault(queue.broker_name, self._link.unwrapped(queue))
        return holders

    async def _in_use(self, holders: Holders) -> str:
        """Of several that an administrator may have made, the one that something stands in.

        Raises:
            ClientError: there are two of that kind.
        """
        if len(holders) == 1:
            return next(iter(holders))
        calls = QueueCalls(self._client)
        used = [
            broker
            for broker, queue in holders.items()
            if await calls.max_offset(self._link.wrapped(queue))
        ]
        if len(used) > 1:
            raise ClientError(
                f"{LEDGER_TOPIC} is in use on {', '.join(sorted(used))}, and only one can count",
                hint=self._how_to_pin(),
            )
        return min(used or holders)

    # Where it is made

    async def _first_of_all(self, pins: Pins, *, is_new_writer: bool) -> str:
        """Where a first ledger belongs: the same broker whoever asks, so that two first writers
        make one. All brokers that the options name must be there: one of them may have it.

        Raises:
            BrokerNotFound, NoNameServer, TopicNotFound
        """
        if not is_new_writer:
            raise BrokerNotFound(
                f"no broker has {LEDGER_TOPIC}, in which it stands what was committed",
                hint="Either the broker that has it is away. Or this query was not transactional "
                f"so far: then make the topic {self._topic}, one queue on one broker",
            )
        if pins.silent:
            raise NoNameServer(
                f"{', '.join(pins.silent)} may know which broker has {LEDGER_TOPIC}",
                hint="For the first write all name servers that are given must be there",
            )
        topic = self._options.topic
        near: set[str] = set()
        if topic is None:
            await self._link.check_present(self._options.brokers)
        else:
            await looked_up_anew(self._client, topic)
            queues = await queues_for(self._link, self._producer, topic, self._options)
            near = {queue.broker_name for queue in queues}
        table = await self._cluster_table()
        masters = {
            name
            for names in table.clusters.values()
            if not near or not near.isdisjoint(names)
            for name in names
            if _has_master(table.brokers.get(name))
        }
        if not masters:
            raise BrokerNotFound("every broker is away")
        return min(masters)

    async def _make(self, broker: str, *, is_new_writer: bool) -> Holders:
        """Raises BrokerNotFound: the broker is away, or has lost the ledger."""
        present = (await self._cluster_table()).brokers.get(broker)
        if present is None or not _has_master(present):
            raise BrokerNotFound(
                f"{broker} has {LEDGER_TOPIC}, in which it stands what was committed, and is away"
            )
        if not is_new_writer:
            raise BrokerNotFound(
                f"{broker} has {LEDGER_TOPIC} no more: nobody knows what was committed",
                hint=f"To go on all the same, make the topic {self._topic} there, with one queue",
            )
        header = UpdateAndCreateTopic(
            topic=self._topic,
            default_topic=DEFAULT_TOPIC,
            read_queue_count=1,
            write_queue_count=1,
            permission=READ_WRITE,
            filter_type=TopicFilterType.SINGLE_TAG.value,
        )
        await self._client.call(present.addresses[MASTER_ID], self._client.request(header))
        return await self._routed(broker)

    async def _routed(self, broker: str) -> Holders:
        pause_s = _POLL_FIRST_S
        try:
            async with asyncio.timeout(ROUTED_WITHIN_S) as limit:
                while broker not in (holders := await self._holders()):
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _POLL_MAX_S)
        except TimeoutError:
            if not limit.expired():  # that of a call
                raise
            raise BrokerNotFound(f"{broker} made {LEDGER_TOPIC} and went away") from None
        return holders

    async def _cluster_table(self) -> ClusterTable:
        request = new_request(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        client = self._client
        answer = await client.name_servers.call(request, client.settings.api_timeout)
        return decode_body(ClusterTable, answer.body)


def _has_master(broker: BrokerData | None) -> bool:
    return broker is not None and MASTER_ID in broker.addresses
