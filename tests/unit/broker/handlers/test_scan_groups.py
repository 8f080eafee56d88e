"""Offsets and starts of the groups that queries read with."""

import asyncio
import json
import logging
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.handlers import scan_groups
from emberq.broker.handlers.scan_groups import ScanGroupHandlers
from emberq.broker.members import Client, Consumers, Manner
from emberq.broker.offsets import ConsumerOffsets
from emberq.broker.scan_starts import ScanStarts
from emberq.broker.topics import Topics
from emberq.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.scans import (
    CommitRequest,
    HeadsQuery,
    OffsetsByTopic,
    PinnedStarts,
    PinRequest,
)
from emberq.protocol.codes import EmberqCode, ResponseCode
from emberq.protocol.command import Command
from emberq.protocol.fastjson_writer import Dialect
from emberq.remoting.registry import HandlerRegistry
from emberq.store.message_store import MessageStore
from tests.unit.broker.peers import Peer, ask

STORE_ID = "5" * 32
MANNER = Manner(
    ConsumeType.CONSUME_PASSIVELY,
    MessageModel.CLUSTERING,
    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
)


END = 1_000


class Queues:
    """What is asked of the store."""

    def max_offset(self, topic: str, queue_id: int) -> int:
        return END


class Bench:
    def __init__(self, folder: Path) -> None:
        self.root = folder.resolve()
        self.topics = Topics(BrokerConfig(), now_ms=lambda: 0)
        self.topics.create_if_absent("T", 4)
        self.groups = Groups(is_auto_created=lambda: True, now_ms=lambda: 0)
        self.consumers = Consumers()
        self.offsets = ConsumerOffsets(lambda: 0)
        self.registry = HandlerRegistry()
        self.disk = asyncio.Event()
        self.disk.set()
        ScanGroupHandlers(
            store=cast(MessageStore, Queues()),
            topics=self.topics,
            groups=self.groups,
            consumers=self.consumers,
            offsets=self.offsets,
            starts=ScanStarts(),
            starts_changed=lambda: None,
            save_starts=self.save,
            store_root=folder,
            store_id=STORE_ID,
        ).add_to(self.registry)

    async def save(self) -> None:
        await self.disk.wait()

    def join(self, group: str, *client_ids: str) -> None:
        self.groups.find(group)
        for client_id in client_ids:
            self.consumers.register(group, Client(Peer(), client_id, "JAVA", 513), MANNER, (), 0)

    async def commit(self, group: str, offset: int) -> Command:
        body = CommitRequest(group=group, offsets={"T": {0: offset}})
        content = encode_body(body, Dialect.STRICT)
        return await ask(self.registry, Peer(), EmberqCode.SCAN_COMMIT, body=content)

    async def pin(self, group: str, starts: OffsetsByTopic, *, is_cleared: bool = False) -> Command:
        body = PinRequest(group=group, starts=starts, is_cleared=is_cleared)
        content = encode_body(body, Dialect.STRICT)
        return await ask(self.registry, Peer(), EmberqCode.SCAN_PIN, body=content)

    async def heads(self) -> Command:
        content = encode_body(HeadsQuery(topics=[]), Dialect.STRICT)
        return await ask(self.registry, Peer(), EmberqCode.SCAN_HEADS, body=content)

    def committed(self, group: str) -> int:
        return self.offsets.query(group, "T", 0)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_offsets_of_a_group_with_consumers_online_are_not_moved(bench: Bench) -> None:
    bench.join("service", "a", "b")
    bench.offsets.commit("service", "T", 0, 3)

    refused = await bench.commit("service", 7)

    assert refused.code == ResponseCode.NO_PERMISSION
    assert refused.remark == (
        "consumers of the group service are online (2): they would skip what a query has read; "
        "choose a group of the query's own"
    )
    assert bench.committed("service") == 3


async def test_an_offset_beyond_the_end_is_that_of_a_topic_that_is_gone(bench: Bench) -> None:
    """Its successor of the same name would be skipped up to there."""
    await bench.commit("lake", END)
    await bench.commit("lake", END + 1)

    assert bench.committed("lake") == END


async def test_no_query_begins_with_a_group_that_has_consumers_online(bench: Bench) -> None:
    await bench.pin("service", {"T": {1: 4}})
    bench.join("service", "a")

    refused = await bench.pin("service", {"T": {0: 7}})
    cleared = await bench.pin("service", {"T": {}}, is_cleared=True)  # a start of before

    assert refused.code == ResponseCode.NO_PERMISSION
    assert cleared.code == ResponseCode.SUCCESS
    assert decode_body(PinnedStarts, cleared.body).starts == {"T": {}}


async def test_a_group_whose_consumers_are_gone_may_be_taken_over_and_the_log_says_so_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.join("service", "a")
    [member] = (bench.consumers.get("service") or pytest.fail("nobody")).members.values()
    bench.consumers.unregister("service", member.connection)

    with caplog.at_level(logging.WARNING):
        answers = [await bench.commit("service", offset) for offset in (7, 9)]

    assert [each.code for each in answers] == [0, 0]
    assert bench.committed("service") == 9
    assert caplog.messages == ["scan_moves_group_of_consumers group=service"]


async def test_a_start_is_answered_when_it_is_on_disk_whoever_set_it(bench: Bench) -> None:
    """A second driver of the same query must not begin on what a crash would take back."""
    bench.disk.clear()
    first = asyncio.ensure_future(bench.pin("lake", {"T": {0: 7}}))
    second = asyncio.ensure_future(bench.pin("lake", {"T": {0: 9}}))

    done, _ = await asyncio.wait([first, second], timeout=0.05)
    bench.disk.set()

    assert done == set()
    for answer in (await first, await second):
        assert decode_body(PinnedStarts, answer.body).starts == {"T": {0: 7}}


async def test_clients_that_may_not_read_do_not_stop_a_query(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.commit("lake", 5)  # which makes it an external group
    bench.join("lake", "by mistake")

    assert (await bench.commit("lake", 7)).code == 0
    assert (await bench.pin("lake", {"T": {0: 7}})).code == 0
    assert bench.committed("lake") == 7
    assert caplog.messages == []


async def test_a_group_that_was_handed_to_consumers_is_theirs(bench: Bench) -> None:
    await bench.commit("lake", 5)
    config = bench.groups.get("lake")
    assert config is not None
    bench.groups.put(replace(config, is_consume_enabled=True))  # mqadmin updateSubGroup
    bench.join("lake", "a")

    assert (await bench.commit("lake", 7)).code == ResponseCode.NO_PERMISSION
    assert bench.committed("lake") == 5


async def test_a_broker_warns_of_so_many_groups_and_no_more(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_groups, "WARNED_MAX", 2)
    for number in range(4):
        bench.groups.find(f"g{number}")
        await bench.commit(f"g{number}", 1)

    assert len(caplog.messages) == 2


async def test_a_broker_says_where_its_files_are_and_their_id_but_no_inode(bench: Bench) -> None:
    """Readers of before the id believed the inode `storeMark`: without it they ask the broker."""
    answer = json.loads((await bench.heads()).body)

    assert answer == {"queues": {}, "storeRoot": str(bench.root), "storeId": STORE_ID}
