"""Whole queues through the client, from a broker that knows scans and from one that does not."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from emberq.client.aio.official_scans import START_GROUP_SUFFIX
from emberq.client.aio.parts import ConsumerPart
from emberq.client.aio.queue_calls import QueueCalls
from emberq.client.core.scanned import QueueHead, ScanFilter
from emberq.errors import BrokerError, OffsetOutOfRange, TopicNotFound
from emberq.model.queue import MessageQueue
from emberq.model.subscription import SQL92_EXPRESSION
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.record.decode import iter_records
from emberq.store.consume_queue import ENTRY
from emberq.store.disk import RealDisk
from emberq.store.store_id import has_store_id
from tests.integration.client.scanning import EMPTY, QUEUE, scanned

pytestmark = pytest.mark.integration


@pytest.fixture(params=[False, True], ids=["own", "official"])
def is_official(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_every_message_of_a_range_is_read_once(tmp_path: Path, is_official: bool) -> None:
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(100)

        found = await it.read(80)

        assert found[:80] == list(range(80))
        assert len(found) == len(set(found))


async def test_a_pull_brings_as_many_bytes_as_it_may(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(500, size=1000)

        small = await it.scans.pull(QUEUE, 0, 500, bytes_max=50_000)
        large = await it.scans.pull(QUEUE, 0, 500, bytes_max=1 << 20)
        one = await it.scans.pull(QUEUE, 0, 500, bytes_max=1)

        assert 30_000 < len(small.content) <= 50_000
        assert large.next_offset == 500
        assert [r.queue_offset for r in iter_records(one.content)] == [0]


async def test_both_ends_and_the_group_of_many_queues_are_one_question(
    tmp_path: Path, is_official: bool
) -> None:
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(7)
        queues = await it.scans.queues("T")

        before = await it.scans.heads(queues, "G")
        await it.scans.commit("G", {QUEUE: 4})
        after = await it.scans.heads(queues, "G")

        assert before[QUEUE] == QueueHead(0, 7, None, None)
        assert before[EMPTY] == QueueHead(0, 0, None, None)
        assert after[QUEUE] == QueueHead(0, 7, 4, None)


async def test_more_topics_than_a_broker_takes_at_once_are_several_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for where in ("client.aio.scans", "broker.handlers.scan_groups"):
        monkeypatch.setattr(f"emberq.{where}.HEADS_TOPICS_MAX", 2)
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(7)
        for name in ("U", "V", "W", "X"):
            it.cluster.broker.topics.create_if_absent(name, 1)
        queues = [MessageQueue("broker-a", 0, name) for name in "TUVWX"]

        heads = await it.scans.heads(queues)

        assert {queue.topic: head.max_offset for queue, head in heads.items()} == {
            **dict.fromkeys("UVWX", 0),
            "T": 7,
        }


async def test_a_pinned_start_is_set_once_and_cleared(tmp_path: Path, is_official: bool) -> None:
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(7)

        first = await it.scans.pin("G", {QUEUE: 5})
        second = await it.scans.pin("G", {QUEUE: 6, EMPTY: 0})
        heads = await it.scans.heads([QUEUE], "G")
        await it.scans.unpin("G", [QUEUE, EMPTY])
        third = await it.scans.pin("G", {QUEUE: 7})

        assert first == {QUEUE: 5}
        assert second == {QUEUE: 5, EMPTY: 0}
        assert heads[QUEUE].start == 5
        assert third == {QUEUE: 7}


async def test_pinned_starts_survive_a_restart_of_the_broker(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(7)
        await it.scans.pin("G", {QUEUE: 5})

    async with scanned(tmp_path, is_official=False) as it:
        await it.registered()
        assert await it.scans.pin("G", {QUEUE: 6}) == {QUEUE: 5}


async def test_a_pinned_start_goes_with_its_topic(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(7)
        await it.scans.pin("G", {QUEUE: 5})
        await it.delete("T")
        await it.put(9)

        assert await it.scans.pin("G", {QUEUE: 2}) == {QUEUE: 2}


async def test_offsets_outside_the_queue_are_named(tmp_path: Path, is_official: bool) -> None:
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(7)

        with pytest.raises(OffsetOutOfRange, match="no offset 9: its messages are 0 to 7"):
            await it.scans.pull(QUEUE, 9, 20)
        at_end = await it.scans.pull(QUEUE, 7, 20)

        assert (at_end.content, at_end.next_offset) == (b"", 7)


@pytest.mark.parametrize(
    "wanted",
    [
        ScanFilter(expression="a || c"),
        ScanFilter(expression="colour = 'red'", expression_type=SQL92_EXPRESSION),
    ],
)
async def test_filters_work_at_the_broker(
    tmp_path: Path, is_official: bool, wanted: ScanFilter
) -> None:
    async with scanned(tmp_path, is_official=is_official, enablePropertyFilter="true") as it:
        await it.put(2, TAGS="a", colour="red")
        await it.put(300, TAGS="b", colour="blue")
        await it.put(1, TAGS="c", colour="red")

        assert await it.read(303, wanted=wanted) == [0, 1, 302]


@pytest.mark.parametrize(
    "wanted",
    [
        ScanFilter(),
        ScanFilter(expression="a"),
        ScanFilter(expression="colour = 'red'", expression_type=SQL92_EXPRESSION),
    ],
    ids=["all", "tag", "sql"],
)
async def test_messages_whose_segment_is_deleted_are_outside_the_queue_at_once(
    tmp_path: Path, wanted: ScanFilter
) -> None:
    """Retention comes to the queue later; with a filter nobody would miss them until then."""
    keys = {"mappedFileSizeCommitLog": "16384", "enablePropertyFilter": "true"}
    async with scanned(tmp_path, is_official=False, **keys) as it:
        await it.put(60, size=900, TAGS="a", colour="red")
        assert it.cluster.broker.store.log.remove_first() is not None

        with pytest.raises(OffsetOutOfRange) as outside:
            await it.scans.pull(QUEUE, 0, 60, wanted=wanted)
        first = outside.value.min_offset
        part = await it.scans.pull(QUEUE, first, 60, wanted=wanted)

        assert 0 < first < 60
        assert next(iter_records(part.content)).queue_offset == first


async def test_a_filter_without_sense_is_refused(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=False, enablePropertyFilter="true") as it:
        await it.put(1)

        with pytest.raises(BrokerError, match="makes no sense"):
            await it.scans.pull(
                QUEUE, 0, 1, wanted=ScanFilter(expression="a >", expression_type=SQL92_EXPRESSION)
            )


async def test_entries_say_where_messages_lie(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(3)

        part = await it.scans.entries(QUEUE, 1, 100)
        records = list(iter_records((await it.scans.pull(QUEUE, 0, 3)).content))

        assert part is not None
        assert part.next_offset == 3
        assert [entry[:2] for entry in ENTRY.iter_unpack(part.content)] == [
            (record.log_offset, record.size_bytes) for record in records[1:]
        ]


async def test_an_official_broker_has_no_entries(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=True) as it:
        await it.put(3)

        assert await it.scans.entries(QUEUE, 1, 100) is None


async def test_a_group_of_scans_moves_forward_only_and_no_consumer_can_read_with_it(
    tmp_path: Path,
) -> None:
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(7)
        await it.scans.commit("G", {QUEUE: 5})
        await it.scans.commit("G", {QUEUE: 3})
        fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "0"}
        fields |= {"maxMsgNums": "1", "sysFlag": "4", "subscription": "*"}
        pull = new_request(RequestCode.PULL_MESSAGE, fields)

        assert (await it.scans.heads([QUEUE], "G"))[QUEUE].committed == 5
        with pytest.raises(BrokerError, match="subscription group no permission, G"):
            await it.client.call(it.cluster.broker_address, pull)


async def test_starts_on_official_brokers_need_no_setting(tmp_path: Path) -> None:
    keys = {"autoCreateSubscriptionGroup": "false"}
    async with scanned(tmp_path, is_official=True, **keys) as it:
        await it.put(7)

        await it.scans.pin("G", {QUEUE: 5})

        assert it.cluster.broker.groups.get("G" + START_GROUP_SUFFIX) is not None
        assert await it.read(7) == list(range(7))


async def test_brokers_that_know_every_group_at_0_are_asked_for_what_they_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = QueueCalls.committed

    async def committed_at_0(self: QueueCalls, group: str, queue: MessageQueue, **_: bool) -> int:
        return max(0, await committed(self, group, queue, is_zero_if_young=False))

    monkeypatch.setattr(QueueCalls, "committed", committed_at_0)  # as 4.9 answers
    async with scanned(tmp_path, is_official=True) as it:
        await it.put(7)

        before = await it.scans.heads([QUEUE], "G")
        pinned = await it.scans.pin("G", {QUEUE: 5})
        await it.scans.unpin("G", [QUEUE])
        await it.scans.commit("G", {QUEUE: 0})
        after = await it.scans.heads([QUEUE], "G")

        assert before[QUEUE] == QueueHead(0, 7, None, None)
        assert pinned == {QUEUE: 5}
        assert after[QUEUE] == QueueHead(0, 7, 0, None)


async def test_the_first_offset_of_a_group_is_stored_before_others_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Official brokers may lose one of two first offsets that come at once."""
    commit, steps = QueueCalls.commit, list[str]()

    async def noted(
        self: QueueCalls, group: str, queue: MessageQueue, offset: int, **_: bool
    ) -> None:
        steps.append("begin")
        await commit(self, group, queue, offset, is_oneway=False)
        steps.append("end")

    monkeypatch.setattr(QueueCalls, "commit", noted)
    async with scanned(tmp_path, is_official=True) as it:
        await it.put(1)
        await it.scans.pin("G", {QUEUE: 0})  # makes the groups
        steps.clear()
        offsets = {MessageQueue("broker-a", number, "T"): number for number in range(4)}

        await it.scans.commit("G" + START_GROUP_SUFFIX, offsets)

        heads = await it.scans.heads(list(offsets), "G")
        assert {queue: head.start for queue, head in heads.items()} == offsets
        assert steps == ["begin", "end"] + ["begin"] * 3 + ["end"] * 3


async def test_the_broker_says_where_its_files_are(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(1)
        await it.scans.heads([QUEUE])
        hint = it.scans.stores["broker-a"]

        assert has_store_id(Path(hint.root), hint.store_id, RealDisk())


async def test_a_topic_that_is_gone_is_asked_about_no_more(tmp_path: Path) -> None:
    """Its route would go on saying where its broker was, for ever."""
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(1)
        await it.delete("T")

        with pytest.raises(TopicNotFound):
            await it.scans.queues("T")

        assert it.client.routes.known("T") is None
        assert "T" not in it.client._topics
        await it.put(1)  # made anew
        assert (await it.scans.heads([QUEUE]))[QUEUE].max_offset == 1


async def test_a_client_with_consumers_keeps_what_name_servers_forget(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(1)
        it.client.add_consumer("others", cast(ConsumerPart, None))
        await it.delete("T")

        with pytest.raises(TopicNotFound):
            await it.scans.queues("T")

        assert it.client.routes.known("T") is not None
        it.client.consumers.clear()


async def test_scans_leave_no_trace_in_pull_offsets(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(3)
        await it.read(3)

        assert it.cluster.broker.offsets.next_pulls() == []


async def test_many_scans_at_once_all_get_their_turn(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(200, size=4000)

        parts = await asyncio.gather(*(it.scans.pull(QUEUE, 0, 200) for _ in range(50)))

        assert {part.next_offset for part in parts} == {200}


async def test_a_damaged_message_is_left_out_whichever_broker_sends_it(
    tmp_path: Path, is_official: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(40, size=100)
        queue = it.cluster.broker.store.queues.get("T", 0)
        assert queue is not None
        log_offset, _, _ = ENTRY.unpack(queue.entries(17, 1) or b"")
        log_file = tmp_path / "store" / "commitlog" / "00000000000000000000"
        if is_official:  # this process does not check what it wrote, official ones check nothing
            flip(log_file, log_offset + 100)

        found = await it.read(40)

        if is_official:
            assert found == [number for number in range(40) if number != 17]
            assert "messages_damaged queue=T broker-a/0 offsets=(17,)" in caplog.text

    if not is_official:
        flip(log_file, log_offset + 100)
        async with scanned(tmp_path, is_official=False) as it:
            await it.registered()
            assert await it.read(40) == [number for number in range(40) if number != 17]


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes((byte ^ 1,)))
