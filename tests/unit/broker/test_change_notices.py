from typing import Any

import pytest

from emberq.broker import change_notices
from emberq.broker.change_notices import ChangeNotices
from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.members import Client, Consumers, Manner
from emberq.model.group import GroupConfig
from emberq.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from emberq.protocol.codes import RequestCode
from tests.support.waiting import loop_turns, until
from tests.unit.broker.peers import Peer


class Broker:
    def __init__(self, **config: Any) -> None:
        self.consumers = Consumers()
        self.groups = Groups(is_auto_created=lambda: True, now_ms=lambda: 0)
        self.groups.put(GroupConfig(name="quiet", is_change_notified=False))
        settings = BrokerConfig(**config)
        notices = ChangeNotices(self.consumers, self.groups, lambda: settings)
        self.consumers.on_change(notices.group_changed)

    def join(self, peer: Peer, group: str, model: MessageModel = MessageModel.CLUSTERING) -> None:
        manner = Manner(
            ConsumeType.CONSUME_PASSIVELY, model, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        )
        self.consumers.register(group, Client(peer, "c", "JAVA", 513), manner, [], 0)


async def test_members_hear_of_a_change_once_per_turn() -> None:
    broker, first, second = Broker(), Peer(), Peer()

    broker.join(first, "G")
    broker.join(second, "G")
    assert first.sent == []
    await loop_turns(2)

    for peer in (first, second):
        [notice] = peer.sent
        assert notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert notice.fields == {"consumerGroup": "G"}
        assert notice.is_oneway


async def test_those_who_stay_hear_of_those_who_leave() -> None:
    broker, first, second = Broker(), Peer(), Peer()
    broker.join(first, "G")
    broker.join(second, "G")
    await loop_turns(2)

    second.close()
    broker.consumers.connection_closed(second)

    await until(lambda: len(first.sent) == 2)
    assert len(second.sent) == 1


async def test_a_group_that_was_told_rests_and_then_hears_once_of_all_that_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(change_notices, "REST_PER_MEMBER_S", 0.05)
    broker, first, others = Broker(), Peer(), [Peer() for _ in range(10)]
    broker.join(first, "G")
    await until(lambda: len(first.sent) == 1)

    for other in others:
        broker.join(other, "G")
        await loop_turns(2)

    await until(lambda: len(first.sent) == 2)
    assert [len(other.sent) for other in others] == [1] * 10


async def test_notices_may_be_gathered_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_notices, "DELAYED_S", 0.02)
    broker, peer = Broker(real_time_notify_consumer_change=False), Peer()

    broker.join(peer, "G")
    await loop_turns(2)
    assert peer.sent == []

    await until(lambda: len(peer.sent) == 1)


async def test_nobody_is_left_to_hear_that_the_last_one_went() -> None:
    broker, peer = Broker(), Peer()

    broker.join(peer, "G")
    broker.consumers.connection_closed(peer)
    await loop_turns(2)

    assert peer.sent == []


async def test_a_member_that_cannot_be_written_to_does_not_keep_others_from_hearing() -> None:
    broker, first, second = Broker(), Peer(), Peer()
    broker.join(first, "G")
    broker.join(second, "G")

    first.close()
    await loop_turns(2)

    assert len(second.sent) == 1


async def test_groups_that_do_not_want_notices_and_broadcasting_ones_hear_nothing() -> None:
    broker, peer = Broker(), Peer()

    broker.join(peer, "quiet")
    broker.join(peer, "all", MessageModel.BROADCASTING)
    await loop_turns(2)

    assert peer.sent == []


async def test_a_broker_that_sends_no_notices_sends_none() -> None:
    broker, peer = Broker(notify_consumer_ids_changed_enable=False), Peer()

    broker.join(peer, "G")
    await loop_turns(2)

    assert peer.sent == []
