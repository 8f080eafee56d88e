"""The blocking client and its producer: same names and arguments as in `emberq.aio`."""

import ssl
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, Self

from emberq.client.aio import client as aio_client
from emberq.client.aio import producer as aio_producer
from emberq.client.aio.batching import BATCH_BYTES
from emberq.client.aio.client import ClientHealth
from emberq.client.aio.producer import IN_FLIGHT_MAX, RETRIES, SEND_TIMEOUT_S
from emberq.client.aio.request_reply import REQUEST_TIMEOUT_S
from emberq.client.aio.transactions import Check, Execute
from emberq.client.blocking.life import Life, Part
from emberq.client.blocking.loop_thread import LoopThread
from emberq.client.blocking.transaction import Transaction
from emberq.client.core.message import Delay, Message, Selector, SendResult
from emberq.client.core.outgoing import MESSAGE_SIZE_MAX_BYTES, Compression
from emberq.client.core.received import ReceivedMessage
from emberq.client.credentials import Credentials
from emberq.client.hooks import SendHook
from emberq.client.metrics import Metrics
from emberq.client.settings import ClientSettings
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import DEFAULT_TOPIC


class Client(Life):
    """Connections that producers and consumers may share. Safe to use from several threads."""

    def __init__(
        self,
        name_server: str | Sequence[str] | None = None,
        *,
        credentials: Credentials | None = None,
        tls: bool | ssl.SSLContext = False,
        namespace: str | None = None,
        namespace_v2: str | None = None,
        instance_name: str | None = None,
        unit_name: str | None = None,
        client_ip: str | None = None,
        is_vip_channel: bool = False,
        settings: ClientSettings | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """The arguments are those of `emberq.aio.Client`."""
        self._thread = LoopThread()
        self.aio: aio_client.Client = aio_client.Client(
            name_server,
            credentials=credentials,
            tls=tls,
            namespace=namespace,
            namespace_v2=namespace_v2,
            instance_name=instance_name,
            unit_name=unit_name,
            client_ip=client_ip,
            is_vip_channel=is_vip_channel,
            settings=settings,
            metrics=metrics,
        )

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """`rocketmq://access:secret@host1:9876,host2:9876/namespace?tls=1`."""
        made = cls.__new__(cls)
        made._thread = LoopThread()
        made.aio = aio_client.Client.from_url(url, **options)
        return made

    def health(self) -> ClientHealth:
        """What is known, without asking anybody."""
        return self.aio.health()

    @property
    def thread(self) -> LoopThread:
        """Where the loop runs."""
        return self._thread

    def _ended(self) -> None:
        self._thread.stop()


class Producer(Part):
    """Sends messages of one group. Use it as `with Producer("group") as producer:`."""

    def __init__(
        self,
        group: str,
        *,
        client: Client | None = None,
        name_server: str | Sequence[str] | None = None,
        codec: Any = bytes,
        send_timeout: float | timedelta = SEND_TIMEOUT_S,
        attempt_timeout: float | timedelta | None = None,
        retries: int = RETRIES,
        compression: Compression | None = None,
        message_size_max: int = MESSAGE_SIZE_MAX_BYTES,
        is_latency_aware: bool = False,
        is_weak_storage_retried: bool = False,
        template_topic: str = DEFAULT_TOPIC,
        new_topic_queues: int = 4,
        in_flight_max: int = IN_FLIGHT_MAX,
        linger: float | timedelta = 0.0,
        batch_bytes: int = BATCH_BYTES,
        check: Check | None = None,
        trace: bool | str = False,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        """The arguments are those of `emberq.aio.Producer`."""
        super().__init__(client or Client(name_server), is_client_ours=client is None)
        self.aio: aio_producer.Producer = aio_producer.Producer(
            group,
            client=self.client.aio,
            codec=codec,
            send_timeout=send_timeout,
            attempt_timeout=attempt_timeout,
            retries=retries,
            compression=compression,
            message_size_max=message_size_max,
            is_latency_aware=is_latency_aware,
            is_weak_storage_retried=is_weak_storage_retried,
            template_topic=template_topic,
            new_topic_queues=new_topic_queues,
            in_flight_max=in_flight_max,
            linger=linger,
            batch_bytes=batch_bytes,
            check=check,
            trace=trace,
            hooks=hooks,
        )

    def send(
        self,
        message: Message | str,
        body: Any = None,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        delay: Delay | None = None,
        ordering_key: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Send a message, or a body to a topic, and return where it went.

        Raises:
            MessageRefused, TopicNotFound, NoNameServer, BrokerError, SendFailed
        """
        return self.submit(
            message,
            body,
            tags=tags,
            keys=keys,
            properties=properties,
            delay=delay,
            ordering_key=ordering_key,
            queue=queue,
            selector=selector,
            timeout=timeout,
        ).result()

    def submit(
        self, message: Message | str, body: Any = None, **options: Any
    ) -> "Future[SendResult]":
        """Begin to send and return at once; the future has the result. Takes what `send` takes."""
        return self._thread.submit(self.aio.send(message, body, **options))

    def send_oneway(
        self,
        message: Message | str,
        body: Any = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        **options: Any,
    ) -> None:
        """Send without an answer: nobody will know whether it was stored."""
        self._thread.run(
            self.aio.send_oneway(message, body, queue=queue, selector=selector, **options)
        )

    def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | timedelta | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic together, in as many requests as their sizes need."""
        return self._thread.run(self.aio.send_batch(messages, queue=queue, timeout=timeout))

    def request(
        self,
        message: Message | str,
        body: Any = None,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        ordering_key: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | timedelta = REQUEST_TIMEOUT_S,
    ) -> ReceivedMessage:
        """Send a message and wait for the reply of one of its consumers.

        Raises:
            RequestReplyTimeout, TooManyPendingCalls, and what `send` raises
        """
        return self._thread.run(
            self.aio.request(
                message,
                body,
                tags=tags,
                keys=keys,
                properties=properties,
                ordering_key=ordering_key,
                queue=queue,
                selector=selector,
                timeout=timeout,
            )
        )

    def reply_to(self, request: ReceivedMessage, body: Any) -> SendResult:
        """Answer a message that was sent by `request`. Raises MessageRefused if it was not."""
        return self._thread.run(self.aio.reply_to(request, body))

    def transaction(self) -> Transaction:
        """Messages that consumers see when the block ends well, and never if it raises."""
        return Transaction(self._thread, self.aio.transaction())

    def send_in_transaction(
        self,
        message: Message | str,
        body: Any = None,
        *,
        execute: Execute,
        tags: str | None = None,
        keys: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        ordering_key: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Send a message whose end `execute` decides: True commits it, False drops it, None or
        an exception, which is raised here too, leaves it to `check`."""
        return self._thread.run(
            self.aio.send_in_transaction(
                message,
                body,
                execute=execute,
                tags=tags,
                keys=keys,
                properties=properties,
                ordering_key=ordering_key,
                queue=queue,
                selector=selector,
                timeout=timeout,
            )
        )

    def recall(self, handle: str, *, timeout: float | timedelta | None = None) -> str:
        """Take back a timed message before its time, by the `recall_handle` of its result;
        returns the message's id. Raises NoPermission, BrokerError if it is too late."""
        return self._thread.run(self.aio.recall(handle, timeout=timeout))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Where messages of a topic can go. Raises TopicNotFound, NoNameServer."""
        return self._thread.run(self.aio.queues(topic))
