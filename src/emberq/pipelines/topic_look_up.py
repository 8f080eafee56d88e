"""What a job has to know of topics before it reads or writes them: whether they are there, which
brokers take their messages, and whether those store a message once."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from msgspec import Struct

from emberq.client.aio.once import OnceSends
from emberq.client.core.topic_queues import publish_queues
from emberq.errors import BrokerError, ConfigError, TopicNotFound
from emberq.model.queue import MessageQueue
from emberq.pipelines.connected import is_connected
from emberq.protocol.codes import ResponseCode
from emberq.spark.links import Link, link_to
from emberq.spark.sink_options import Delivered, SinkOptions, parse_sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class KnownTopic(Struct, frozen=True):
    """`brokers` are those that take its messages; `is_once`: all of them leave out what they have,
    as delivery=idempotent needs it."""

    name: str
    brokers: tuple[str, ...]
    is_once: bool = False


def look_up_topics(
    session: "SparkSession",
    connection: Mapping[str, str],
    names: Collection[str],
    *,
    asks_once: bool = False,
) -> dict[str, KnownTopic]:
    """Those of the topics that there are, by name.

    Raises:
        NoNameServer: none of them answers.
        BrokerNotFound: there is no topic because there is no broker.
        PipelineError: the same, where Spark asks.
    """
    if not names:
        return {}
    question = partial(_looked_up, dict(connection), sorted(names), asks_once=asks_once)
    if is_connected(session):  # brokers can be out of reach of a client of Spark Connect
        rows = session.range(0, 1, 1, 1).mapInArrow(_in_task(question), "answer binary").collect()
        answer = bytes(rows[0]["answer"])
    else:
        answer = question()
    return {topic.name: topic for topic in msgspec.json.decode(answer, type=list[KnownTopic])}


def check_target(
    session: "SparkSession", connection: Mapping[str, str], sink: Mapping[str, str]
) -> None:
    """That the topic of these options of the sink is there, if the sink would not make it.

    Raises:
        ConfigError: it is not.
        NoNameServer, BrokerNotFound, PipelineError: as `look_up_topics`.
    """
    options = parse_sink(sink)
    topic = options.topic
    if topic is None or options.delivery is Delivered.AT_LEAST_ONCE:
        return
    if topic not in look_up_topics(session, connection, [topic]):
        raise ConfigError(
            f"no broker that is there has the topic {topic}, and delivery={options.delivery} makes "
            f"none: make it, by `mqadmin updateTopic -c CLUSTER -t {topic}` or "
            "`Producer.create_topic`"
        )


def _in_task(
    question: Callable[[], bytes],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"answer": [question()]})

    return ask


def _looked_up(connection: dict[str, str], names: list[str], *, asks_once: bool) -> bytes:
    options = parse_sink({**connection, "delivery": Delivered.IDEMPOTENT})
    link = link_to(options.connection)
    topics = link.run(lambda: _ask(link, options, names, asks_once=asks_once), options.retries)
    return msgspec.json.encode(topics)


async def _ask(
    link: Link, options: SinkOptions, names: list[str], *, asks_once: bool
) -> list[KnownTopic]:
    sends = OnceSends(link.client, link.client.wrap(options.producer_group))
    once: dict[str, bool] = {}  # by broker
    found = []
    for name in names:
        try:
            route = await link.client.routes.refresh(link.client.wrap(name))
        except TopicNotFound:
            continue
        brokers = {queue.broker_name for queue in publish_queues(name, route).queues}
        for broker in sorted(brokers - once.keys()) if asks_once else ():
            queue = MessageQueue(broker, 0, name)
            once[broker] = await stores_once(sends, queue, options.timeout_s)
        is_once = asks_once and all(once[broker] for broker in brokers)
        found.append(KnownTopic(name, tuple(sorted(brokers)), is_once))
    if not found:
        # Brokers take their topics along: without any of them, nothing is known of topics.
        await link.check_present()
    return found


async def stores_once(sends: OnceSends, queue: MessageQueue, timeout_s: float) -> bool:
    """Whether a queue's broker leaves out messages that it has: asked by a request without any.

    Raises:
        BrokerNotFound, BrokerError, RemotingError
    """
    try:
        await sends.send_elements(b"", queue, timeout_s)
    except ConfigError:  # an official broker
        return False
    except BrokerError as error:
        if error.code != ResponseCode.INVALID_PARAMETER:
            raise
        return False  # one that keeps no index
    return True
