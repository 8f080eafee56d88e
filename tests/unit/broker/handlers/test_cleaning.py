import pytest

from emberq.broker.config import BrokerConfig
from emberq.broker.handlers.cleaning import CleaningHandlers
from emberq.broker.topics import Topics
from emberq.protocol.codes import RequestCode
from emberq.remoting.registry import HandlerRegistry
from tests.unit.broker.peers import Peer, ask


class FakeStore:
    def __init__(self, error: OSError | None = None) -> None:
        self.done: list[object] = []
        self._error = error

    def clean_expired_queues(self) -> int:
        return self._note("queues")

    def clean_unused_topics(self, kept: set[str]) -> int:
        return self._note(kept)

    def delete_expired_segments(self) -> int:
        return self._note("segments")

    def _note(self, what: object) -> int:
        if self._error is not None:
            raise self._error
        self.done.append(what)
        return 1


def handlers(store: FakeStore, topics: Topics) -> HandlerRegistry:
    registry = HandlerRegistry()
    CleaningHandlers(store=store, topics=topics).add_to(registry)
    return registry


CODES = (
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
)


async def test_the_store_is_cleaned_before_the_answer() -> None:
    store, topics = FakeStore(), Topics(BrokerConfig(broker_name="b"), now_ms=lambda: 1)
    registry = handlers(store, topics)

    answers = [await ask(registry, Peer(), code) for code in CODES]

    assert [answer.code for answer in answers] == [0, 0, 0]
    assert store.done == ["queues", set(topics.names()), "segments"]


@pytest.mark.parametrize("code", CODES)
async def test_a_store_that_cannot_is_an_error(code: RequestCode) -> None:
    store, topics = FakeStore(OSError("no")), Topics(BrokerConfig(), now_ms=lambda: 1)

    answer = await ask(handlers(store, topics), Peer(), code)

    assert (answer.code, answer.remark) == (1, "no")
