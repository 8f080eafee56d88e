"""Single messages and entries of queues."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emberq.broker.handlers import queries
from emberq.model.subscription import SQL92_EXPRESSION, Subscription
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.queries import ConsumeQueueEntries
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from tests.support.stores import TOPIC, put
from tests.unit.broker.peers import Peer, ask
from tests.unit.broker.pulling import GROUP, Pulling, bodies_of, field, pulling_in

NOTHING = "can not find message, maybe time range not correct"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Pulling]:
    with pulling_in(tmp_path) as bench:
        yield bench


async def by_key(bench: Pulling, **changes: str) -> Command:
    fields = {
        "topic": TOPIC,
        "key": "k1",
        "maxNum": "10",
        "beginTimestamp": "0",
        "endTimestamp": str(1 << 62),
        **changes,
    }
    return await ask(bench.registry, Peer(), RequestCode.QUERY_MESSAGE, fields)


async def by_offset(bench: Pulling, offset: int) -> Command:
    fields = {"offset": str(offset)}
    return await ask(bench.registry, Peer(), RequestCode.VIEW_MESSAGE_BY_ID, fields)


async def entries(bench: Pulling, **changes: str) -> Command:
    fields = {"topic": TOPIC, "queueId": "0", "index": "0", "count": "10", **changes}
    return await ask(bench.registry, Peer(), RequestCode.QUERY_CONSUME_QUEUE, fields)


async def test_messages_by_key(bench: Pulling) -> None:
    put(bench.store, b"1", keys="k1 k2")
    last = put(bench.store, b"2", keys="k1")

    response = await by_key(bench)

    assert (response.code, bodies_of(response)) == (0, [b"1", b"2"])
    assert field(response, "indexLastUpdateTimestamp") == bench.clock.now_ms
    assert field(response, "indexLastUpdatePhyoffset") == last.log_offset
    assert bodies_of(await by_key(bench, key="k2")) == [b"1"]
    assert bodies_of(await by_key(bench, maxNum="1")) == [b"2"]


async def test_messages_by_unique_key_have_a_number_of_their_own(bench: Pulling) -> None:
    put(bench.store, b"1", unique_key="U1", keys="U1")
    put(bench.store, b"2", keys="U1")

    response = await by_key(bench, key="U1", maxNum="1", _UNIQUE_KEY_QUERY="true")

    assert len(bodies_of(response)) == 2


async def test_messages_by_tag(bench: Pulling) -> None:
    put(bench.store, b"1", tags="A")

    assert bodies_of(await by_key(bench, key="A", indexType="T")) == [b"1"]
    assert (await by_key(bench, key="A")).code == 22


@pytest.mark.parametrize(
    "changes", [{"key": "other"}, {"topic": "Other"}, {"endTimestamp": "5"}, {"maxNum": "0"}]
)
async def test_nothing_found(bench: Pulling, changes: dict[str, str]) -> None:
    put(bench.store, b"1", keys="k1")

    response = await by_key(bench, **changes)

    assert (response.code, response.remark) == (22, NOTHING)
    assert field(response, "indexLastUpdateTimestamp") == 0
    assert field(response, "indexLastUpdatePhyoffset") == 0


async def test_queries_without_a_key_find_nothing_and_negative_counts_are_refused(
    bench: Pulling,
) -> None:
    times = {"maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"}

    without = await ask(bench.registry, Peer(), RequestCode.QUERY_MESSAGE, times)

    assert without.code == 22
    assert (await by_key(bench, maxNum="-1")).code == 1


async def test_a_message_by_its_place(bench: Pulling) -> None:
    put(bench.store, b"1")
    second = put(bench.store, b"2")

    assert bodies_of(await by_offset(bench, second.log_offset)) == [b"2"]
    for offset in (-1, second.log_offset + 1, 1 << 40):
        response = await by_offset(bench, offset)
        assert response.code == 1
        assert response.remark == f"can not find message by the offset, {offset}"


async def test_a_cold_message_by_its_place(bench: Pulling, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = put(bench.store, b"1")
    monkeypatch.setattr(bench.store, "record_at", lambda _: None)

    assert bodies_of(await by_offset(bench, stored.log_offset)) == [b"1"]


async def test_entries_of_a_queue(bench: Pulling) -> None:
    put(bench.store, b"1", tags="TagA")
    second = put(bench.store, b"2")

    response = await entries(bench, index="1")

    assert (response.code, response.remark) == (0, "not set any response code")
    body = decode_body(ConsumeQueueEntries, response.body)
    assert (body.queue_offset_min, body.queue_offset_max) == (0, 2)
    assert body.entries is not None
    assert [each.log_offset for each in body.entries] == [second.log_offset]
    first = decode_body(ConsumeQueueEntries, (await entries(bench, count="1")).body)
    assert first.entries is not None
    assert [each.tag_code for each in first.entries] == [2598919]


async def test_entries_have_a_limit(bench: Pulling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "ENTRIES_MAX", 2)
    for _ in range(3):
        put(bench.store)

    body = decode_body(ConsumeQueueEntries, (await entries(bench)).body)

    assert body.entries is not None
    assert len(body.entries) == 2


async def test_entries_that_are_not_there(bench: Pulling) -> None:
    put(bench.store)

    beyond = await entries(bench, index="1")
    assert (beyond.code, beyond.remark) == (0, f"Index 1 of 0@{TOPIC} is not exist!")
    unknown = await entries(bench, queueId="3")
    assert (unknown.code, unknown.remark) == (1, f"3@{TOPIC} is not exist!")


async def test_entries_show_the_filter_of_a_group(bench: Pulling) -> None:
    put(bench.store)
    offline = decode_body(ConsumeQueueEntries, (await entries(bench, consumerGroup=GROUP)).body)
    assert offline.filter_text == f"{GROUP}@{TOPIC} is not online!"

    bench.join(Subscription(topic=TOPIC, expression="*", version=1))
    online = decode_body(ConsumeQueueEntries, (await entries(bench, consumerGroup=GROUP)).body)
    assert online.filter_text == "null"
    assert online.subscription is not None

    bench.join(
        Subscription(topic=TOPIC, expression="a > 5", expression_type=SQL92_EXPRESSION, version=2)
    )
    sql = decode_body(ConsumeQueueEntries, (await entries(bench, consumerGroup=GROUP)).body)
    assert '"expression":"a > 5"' in (sql.filter_text or "")
