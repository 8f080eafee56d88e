"""A `logging.Handler` that sends records to a topic, beside the program and never in its way."""

import logging
import os
from collections.abc import Sequence

from emberq.client.aio.client import Client
from emberq.client.aio.producer import Producer
from emberq.client.core.message import Message
from emberq.client.core.outgoing import check_group, check_topic
from emberq.client.log_sending import LogSending
from emberq.errors import ConfigError

# Records that wait to be sent; more are dropped and counted.
BUFFER_MAX = 10_000
# The text of a record beyond this is cut off.
TEXT_MAX_BYTES = 64 * 1024
FLUSH_TIMEOUT_S = 5.0
# Our own records would make records of their own, for ever.
OWN_LOGGERS = "emberq"


class TopicLogHandler(logging.Handler):
    """Sends what it formats; the level is the tag, the logger's name the key.

    Whoever logs only puts a message into a buffer. While brokers are away the buffer fills, and
    what does not fit is dropped and counted. Records of EmberQ itself are left out.
    """

    def __init__(
        self,
        topic: str,
        *,
        name_server: str | Sequence[str] | None = None,
        url: str | None = None,
        group: str = "log-records",
        level: int | str = logging.NOTSET,
        buffer_max: int = BUFFER_MAX,
        flush_timeout: float = FLUSH_TIMEOUT_S,
    ) -> None:
        """
        Args:
            url: instead of `name_server`, as `Client.from_url` takes it.
            buffer_max: records that wait to be sent.
            flush_timeout: how many seconds `flush` and `close` wait at most.

        Raises:
            MessageRefused, ConfigError
        """
        super().__init__(level)
        check_topic(topic)
        check_group(group)
        if buffer_max < 1:
            raise ConfigError(f"buffer_max={buffer_max}: at least 1 is needed")
        if url is not None and name_server is not None:
            raise ConfigError("give a name server or a url, not both")
        self._topic = topic
        self._name_server = name_server
        self._url = url
        self._group = group
        self._buffer_max = buffer_max
        self._flush_timeout_s = flush_timeout
        self._is_closed = False
        self._producer()  # what cannot be used should be known now, not in a thread later
        self._sending = LogSending(self._producer, buffer_max)

    @property
    def dropped(self) -> int:
        """Records that were not sent: the buffer was full, or the handler was closed too soon."""
        return self._sending.dropped

    def filter(self, record: logging.LogRecord) -> bool | logging.LogRecord:  # type: ignore[override, unused-ignore] # newer Pythons let filters replace records
        # Here, before the handler's lock: our thread must never wait for who waits for it.
        if record.name.partition(".")[0] == OWN_LOGGERS or self._sending.is_own_thread:
            return False
        return super().filter(record)

    def emit(self, record: logging.LogRecord) -> None:
        if self._is_closed:
            return
        try:
            text = self.format(record).encode("utf-8", "replace")[:TEXT_MAX_BYTES]
            if os.getpid() != self._sending.process_id:
                # A forked child sends by itself; the parent sends what it had.
                self._sending = LogSending(self._producer, self._buffer_max)
            if text:
                self._sending.put(Message(self._topic, text, record.levelname, record.name))
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Wait until what was logged so far has been sent, or for `flush_timeout`."""
        if os.getpid() == self._sending.process_id:
            self._sending.flush(self._flush_timeout_s)

    def close(self) -> None:
        """Flush, and stop. Nothing is sent afterwards."""
        if not self._is_closed:
            self.flush()
            self._is_closed = True
            if os.getpid() == self._sending.process_id:
                self._sending.close()
        super().close()

    def _producer(self) -> Producer:
        client = Client(self._name_server) if self._url is None else Client.from_url(self._url)
        return Producer(self._group, client=client)
