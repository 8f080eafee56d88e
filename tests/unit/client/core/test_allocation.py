"""Shares as the official clients compute them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.client.core.allocation import (
    AllocationStrategy,
    Average,
    AverageByCircle,
    ConsistentHash,
    Fixed,
    MachineRoom,
    MachineRoomNearby,
    sorted_queues,
)
from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue


def queues(count: int, broker: str = "broker-a") -> list[MessageQueue]:
    return [MessageQueue(broker, number, "TopicTest") for number in range(count)]


def shares(strategy: AllocationStrategy, count: int, members: int) -> list[list[int]]:
    names = [f"c{number}" for number in range(members)]
    return [
        [queue.queue_id for queue in strategy.allocate(name, queues(count), names)]
        for name in names
    ]


@pytest.mark.parametrize(
    ("count", "members", "expected"),
    [
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (10, 4, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (4, 6, [[0], [1], [2], [3], [], []]),
        (3, 1, [[0, 1, 2]]),
    ],
)
def test_average_gives_neighbours(count: int, members: int, expected: list[list[int]]) -> None:
    assert shares(Average(), count, members) == expected


def test_a_circle_deals_queues_like_cards() -> None:
    assert shares(AverageByCircle(), 8, 3) == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_the_ring_is_the_official_one() -> None:
    owners = {
        queue_id: member
        for member, share in enumerate(shares(ConsistentHash(), 8, 3))
        for queue_id in share
    }

    assert [owners[number] for number in range(8)] == [1, 0, 2, 1, 1, 1, 2, 1]


def test_a_ring_needs_nodes() -> None:
    with pytest.raises(ConfigError, match="virtual nodes"):
        ConsistentHash(0)


def test_machine_rooms_share_their_own_queues_only() -> None:
    strategy = MachineRoom({"room1"})
    ours = queues(8, "room1@broker")
    foreign = [*queues(4, "room2@broker"), *queues(2, "plain"), *queues(1, "room1@a@b")]
    members = ["c0", "c1", "c2"]

    kept = [
        [queue.queue_id for queue in strategy.allocate(member, ours + foreign, members)]
        for member in members
    ]

    assert kept == [[0, 1, 6], [2, 3, 7], [4, 5]]


def test_fixed_queues_are_kept_whoever_is_there() -> None:
    wanted = queues(2)

    assert Fixed(wanted).allocate("nobody", queues(8), ["c0"]) == wanted


def room_of_queue(queue: MessageQueue) -> str:
    return queue.broker_name.partition("@")[0]


def room_of_member(member: str) -> str:
    return member.partition("-")[0]


def test_nearby_members_serve_their_room_and_share_rooms_without_members() -> None:
    strategy = MachineRoomNearby(Average(), room_of_queue, room_of_member)
    everything = [*queues(2, "east@b"), *queues(2, "north@b"), *queues(2, "west@b")]
    members = ["east-1", "west-1", "west-2"]

    got = {member: strategy.allocate(member, everything, members) for member in members}

    assert strategy.name == "MACHINE_ROOM_NEARBY-AVG"
    assert got["east-1"] == [*queues(2, "east@b"), MessageQueue("north@b", 0, "TopicTest")]
    assert got["west-1"] == [
        MessageQueue("west@b", 0, "TopicTest"),
        MessageQueue("north@b", 1, "TopicTest"),
    ]
    assert got["west-2"] == [MessageQueue("west@b", 1, "TopicTest")]


def test_a_member_in_no_room_is_an_error() -> None:
    strategy = MachineRoomNearby(Average(), room_of_queue, lambda _: "")

    with pytest.raises(ConfigError, match="no machine room"):
        strategy.allocate("c0", queues(1), ["c0"])


@pytest.mark.parametrize(
    "strategy", [Average(), AverageByCircle(), ConsistentHash(), MachineRoom({"broker-a"})]
)
def test_a_member_that_the_broker_does_not_count_has_nothing(strategy: AllocationStrategy) -> None:
    assert strategy.allocate("new", queues(8), ["c0", "c1"]) == []


@given(
    count=st.integers(0, 40),
    members=st.integers(1, 12),
    strategy=st.sampled_from([Average(), AverageByCircle(), ConsistentHash()]),
)
def test_every_queue_has_exactly_one_owner(
    count: int, members: int, strategy: AllocationStrategy
) -> None:
    taken = [queue_id for share in shares(strategy, count, members) for queue_id in share]

    assert sorted(taken) == list(range(count))


def test_queues_are_sorted_by_topic_broker_and_number() -> None:
    mixed = [
        MessageQueue("b", 10, "T"),
        MessageQueue("b", 2, "T"),
        MessageQueue("a", 3, "T"),
        MessageQueue("z", 0, "S"),
    ]

    assert sorted_queues(mixed) == [mixed[3], mixed[2], mixed[1], mixed[0]]
