"""Log records that go to a topic."""

import logging
import logging.config
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from emberq import Message, PullConsumer, TopicLogHandler
from emberq.aio import Producer
from emberq.client import log_sending
from emberq.errors import ConfigError, MessageRefused
from emberq.testing.embedded import EmbeddedCluster, embedded_cluster
from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import run_name_server

pytestmark = pytest.mark.integration

UNUSED = "127.0.0.1:1"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with embedded_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def logger(request: pytest.FixtureRequest) -> Iterator[logging.Logger]:
    made = logging.getLogger(f"app.{request.node.name}")
    made.setLevel(logging.DEBUG)
    yield made
    for handler in list(made.handlers):
        made.removeHandler(handler)
        handler.close()


def sent(name_server: str, topic: str, count: int) -> list[tuple[str | None, str, str]]:
    """Tag, key and text of the first records in a topic."""
    with PullConsumer(
        f"{topic}-readers",
        name_server=name_server,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    ) as consumer:
        consumer.subscribe(topic)
        found = [
            (message.tags, message.keys[0], message.text())
            for _, message in zip(range(count), consumer, strict=False)
        ]
    return found


def test_records_are_sent_with_level_and_name(
    running: EmbeddedCluster, logger: logging.Logger
) -> None:
    handler = TopicLogHandler("logs-plain", name_server=running.name_server, level="INFO")
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)

    logger.debug("too quiet")
    logger.warning("disk %d%% full", 90)
    logger.info("hello")
    handler.flush()

    assert sorted(sent(running.name_server, "logs-plain", 2)) == [
        ("INFO", logger.name, "INFO hello"),
        ("WARNING", logger.name, "WARNING disk 90% full"),
    ]
    assert handler.dropped == 0


def test_many_threads_lose_nothing_and_close_waits(
    running: EmbeddedCluster, logger: logging.Logger
) -> None:
    handler = TopicLogHandler("logs-many", name_server=running.name_server, flush_timeout=15)
    logger.addHandler(handler)

    def work(thread: int) -> None:
        for number in range(100):
            logger.info("%d/%d", thread, number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handler.close()
    logger.info("after the end")

    assert handler.dropped == 0
    assert len({text for *_, text in sent(running.name_server, "logs-many", 400)}) == 400


def test_without_a_broker_nobody_waits_and_what_does_not_fit_is_counted(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    handler = TopicLogHandler("logs", name_server=UNUSED, buffer_max=10, flush_timeout=0.01)
    logger.addHandler(handler)

    for number in range(25):
        logger.info("%d", number)
    handler.flush()
    assert handler.dropped == 15
    handler.close()

    assert handler.dropped == 25
    # What EmberQ says of it is not sent to the topic again, or this would never end.
    assert caplog.text.count("log_records_wait") <= 1


def test_records_wait_for_a_broker_that_comes_back(
    tmp_path: Path, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_sending, "RETRY_MAX_S", 0.2)
    with run_name_server(tmp_path / "name-server") as names:
        handler = TopicLogHandler("logs-later", name_server=names.address, flush_timeout=20)
        logger.addHandler(handler)
        logger.info("nobody is there")
        with run_broker(tmp_path / "broker", name_servers=names.address):
            handler.flush()
            assert [text for *_, text in sent(names.address, "logs-later", 1)] == [
                "nobody is there"
            ]
            handler.close()


def test_what_should_never_happen_stops_nothing(
    running: EmbeddedCluster,
    logger: logging.Logger,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    send_batch = Producer.send_batch
    failures = [RuntimeError("a mistake of ours")]

    async def failing_once(self: Producer, messages: Iterable[Message]) -> object:
        if failures:
            raise failures.pop()
        return await send_batch(self, messages)

    monkeypatch.setattr(Producer, "send_batch", failing_once)
    handler = TopicLogHandler("logs-broken", name_server=running.name_server, flush_timeout=15)
    logger.addHandler(handler)
    logger.info("lost")
    handler.flush()
    logger.info("sent")
    handler.flush()

    assert handler.dropped == 1
    assert "log_records_broken count=1" in caplog.text
    assert [text for *_, text in sent(running.name_server, "logs-broken", 1)] == ["sent"]


def test_the_root_logger_may_have_it_and_emberq_is_left_out(running: EmbeddedCluster) -> None:
    root = logging.getLogger()
    before = root.level
    handler = TopicLogHandler("logs-root", name_server=running.name_server, flush_timeout=15)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)  # clients and brokers say a lot at this level
    try:
        logging.getLogger("app").info("hello")
        handler.flush()
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        handler.close()

    assert ("INFO", "app", "hello") in sent(running.name_server, "logs-root", 1)


PROGRAM = """
import logging, logging.config, os, sys, warnings
warnings.simplefilter("ignore")
logging.config.dictConfig({
    "version": 1,
    "handlers": {
        "topic": {
            "class": "emberq.TopicLogHandler",
            "topic": "logs-program",
            "name_server": sys.argv[1],
        }
    },
    "root": {"level": "INFO", "handlers": ["topic"]},
})
logging.info("from the parent")
child = os.fork()
logging.info("from both")
if child:
    os.waitpid(child, 0)
"""


def test_a_program_that_ends_has_sent_all_and_so_has_its_child(running: EmbeddedCluster) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, running.name_server], timeout=60, check=True)

    texts = sorted(text for *_, text in sent(running.name_server, "logs-program", 3))
    assert texts == ["from both", "from both", "from the parent"]


def test_mistakes_are_named() -> None:
    with pytest.raises(MessageRefused, match="letters, digits"):
        TopicLogHandler("no topic")
    with pytest.raises(ConfigError, match="at least 1"):
        TopicLogHandler("logs", buffer_max=0)
    with pytest.raises(ConfigError, match="expected host:port"):
        TopicLogHandler("logs", name_server="localhost")
    with pytest.raises(ConfigError, match="not both"):
        TopicLogHandler("logs", name_server=UNUSED, url="rocketmq://127.0.0.1:1")
