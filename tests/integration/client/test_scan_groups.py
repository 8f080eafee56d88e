"""Groups of queries and groups of consumers: a query never moves what consumers read by."""

import logging
from pathlib import Path

import pytest

from emberq.client.aio import official_scans
from emberq.client.aio.client import Client
from emberq.client.aio.official_scans import START_GROUP_SUFFIX
from emberq.client.aio.queue_calls import QueueCalls
from emberq.client.aio.scans import Scans
from emberq.errors import BrokerNotFound, NoPermission, SystemBusy
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from tests.integration.client.scanning import EMPTY, QUEUE, Scanned, scanned

pytestmark = pytest.mark.integration

MEMBERS, QUERY, COMMIT = (
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
)
REFUSED = r"consumers of the group G are online \(1\).*choose a group of the query's own"


@pytest.fixture(params=[False, True], ids=["own", "official"])
def is_official(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def committed(it: Scanned, queue: MessageQueue = QUEUE, group: str = "G") -> int:
    return it.cluster.broker.offsets.query(group, "T", queue.queue_id)


async def test_a_group_with_consumers_online_is_refused(tmp_path: Path, is_official: bool) -> None:
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(7)
        await it.join("G")

        with pytest.raises(NoPermission, match=REFUSED):
            await it.scans.pin("G", {QUEUE: 5})
        with pytest.raises(NoPermission, match=REFUSED):
            await it.scans.commit("G", {QUEUE: 5})
        with pytest.raises(NoPermission, match=REFUSED):  # not only the first one
            await it.scans.commit("G", {QUEUE: 5})

        head = (await it.scans.heads([QUEUE], "G"))[QUEUE]
        assert (committed(it), head.start) == (-1, None)


async def test_offsets_of_consumers_can_be_read_while_they_are_online(
    tmp_path: Path, is_official: bool
) -> None:
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(7)
        await it.join("G")
        await QueueCalls(it.client).commit("G", QUEUE, 3, is_oneway=False)

        assert (await it.scans.heads([QUEUE], "G"))[QUEUE].committed == 3


async def test_a_group_is_free_when_its_consumers_are_gone(
    tmp_path: Path, is_official: bool
) -> None:
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(7)
        await it.join("G")
        with pytest.raises(NoPermission):
            await it.scans.commit("G", {QUEUE: 5})

        await it.leave("G")
        await it.scans.commit("G", {QUEUE: 5})

        assert committed(it) == 5


async def test_offsets_only_move_forward(tmp_path: Path, is_official: bool) -> None:
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(7)
        await it.scans.commit("G", {QUEUE: 5, EMPTY: 0})

        await Scans(it.client).commit("G", {QUEUE: 3, EMPTY: 0})  # a batch that was overtaken

        assert (committed(it), committed(it, EMPTY)) == (5, 0)


async def test_steady_commits_to_official_brokers_ask_for_consumers_once(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=True) as it:
        await it.put(7)
        codes = it.counted()
        await it.scans.pin("G", {QUEUE: 0})
        await it.scans.commit("G", {QUEUE: 1, EMPTY: 2})
        assert codes.count(MEMBERS) == 1
        codes.clear()

        for offset in range(2, 6):
            await it.scans.commit("G", {QUEUE: offset, EMPTY: 2})

        # Queues whose offset stays cost no commit.
        assert codes == [QUERY, QUERY, COMMIT] * 4


async def test_consumers_that_come_later_stop_a_query_at_official_brokers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scanned(tmp_path, is_official=True) as it:
        await it.put(7)
        await it.scans.commit("G", {QUEUE: 1})
        await it.join("G")
        await it.scans.commit("G", {QUEUE: 2})  # asked for within the minute

        monkeypatch.setattr(official_scans, "CONSUMERS_EVERY_S", 0.0)
        with pytest.raises(NoPermission, match=REFUSED):
            await it.scans.commit("G", {QUEUE: 3})

        assert committed(it) == 2


async def test_only_so_many_groups_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(official_scans, "CHECKS_MAX", 2)
    async with scanned(tmp_path, is_official=True) as it:
        await it.put(7)
        codes = it.counted()

        for group in ("A", "B", "C", "C", "A"):
            await it.scans.commit(group, {QUEUE: 1})

        assert codes.count(MEMBERS) == 4


async def test_a_start_of_before_is_forgotten_though_consumers_came(
    tmp_path: Path, is_official: bool
) -> None:
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(7)
        await it.scans.pin("G", {QUEUE: 5})
        await it.join("G")

        await it.scans.unpin("G", [QUEUE])

        assert (await it.scans.heads([QUEUE], "G"))[QUEUE].start is None
        assert committed(it, group="G" + START_GROUP_SUFFIX) == -1


async def test_a_broker_that_does_not_tell_its_consumers_is_committed_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scanned(tmp_path, is_official=True) as it:
        await it.put(7)
        it.answer(MEMBERS, lambda command, _: answer(command, 16, "not for you"))

        with caplog.at_level(logging.WARNING):
            await it.scans.commit("G", {QUEUE: 5})
            await it.scans.commit("G", {QUEUE: 6})

        assert committed(it) == 6
        assert caplog.text.count("consumers_unknown group=G") == 1


async def test_a_broker_that_is_busy_is_asked_again(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=True) as it:
        await it.put(7)

        def busy(command: Command, _: Connection) -> Command:
            return answer(command, 2, "come again")

        it.answer(MEMBERS, busy)

        with pytest.raises(SystemBusy):
            await it.scans.commit("G", {QUEUE: 5})
        assert committed(it) == -1


# Brokers and topics that are gone


async def test_a_broker_that_is_gone_keeps_no_other_from_its_offsets(
    tmp_path: Path, is_official: bool
) -> None:
    gone = MessageQueue("a-broker-that-was-taken-away", 0, "T")
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(7)

        with pytest.raises(BrokerNotFound, match=gone.broker_name):
            await it.scans.commit("G", {gone: 5, QUEUE: 5})

        assert committed(it) == 5


async def test_all_brokers_that_are_gone_are_named(tmp_path: Path) -> None:
    gone = [MessageQueue(name, 0, "T") for name in ("one", "two")]
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(7)

        with pytest.raises(
            BrokerNotFound, match=r"of G are not stored at 2 brokers: one: .*; two:"
        ):
            await it.scans.commit("G", {**dict.fromkeys(gone, 5), QUEUE: 5})

        assert committed(it) == 5


async def test_refusal_comes_before_what_may_get_better(tmp_path: Path) -> None:
    gone = MessageQueue("a-broker-that-was-taken-away", 0, "T")
    async with scanned(tmp_path, is_official=False) as it:
        await it.put(7)
        await it.join("G")

        with pytest.raises(NoPermission, match=REFUSED):
            await it.scans.commit("G", {gone: 5, QUEUE: 5})


async def test_a_topic_that_is_gone_keeps_no_other_from_its_offsets(
    tmp_path: Path, is_official: bool
) -> None:
    """Also in a process that has asked for no route yet."""
    gone = MessageQueue(QUEUE.broker_name, 0, "Deleted")
    async with scanned(tmp_path, is_official=is_official) as it:
        await it.put(7)
        async with Client(it.cluster.name_server) as fresh:
            await Scans(fresh).commit("G", {gone: 5, QUEUE: 5})

        assert committed(it) == 5
