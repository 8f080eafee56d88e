"""Which queues of a topic belong to which member of a group.

There is no coordinator: every member computes the same answer from the same sorted inputs, so each
strategy must give exactly what the official clients compute.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import md5
from typing import Protocol

from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue

VIRTUAL_NODES_DEFAULT = 10

Queues = Sequence[MessageQueue]


class AllocationStrategy(Protocol):
    """`queues` and `members` are sorted; the answer is the share of `member`."""

    @property
    def name(self) -> str:
        """As it is written on the wire, where brokers assign queues."""

    def allocate(
        self, member: str, queues: Queues, members: Sequence[str]
    ) -> list[MessageQueue]: ...


def sorted_queues(queues: Collection[MessageQueue]) -> list[MessageQueue]:
    return sorted(queues, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))


class Average:
    """Blocks of neighbours; the first members get one more where it does not divide evenly."""

    name = "AVG"

    def allocate(self, member: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
        index = _index_of(member, members)
        if index is None:
            return []
        size, rest = divmod(len(queues), len(members))
        start = index * size + min(index, rest)
        return list(queues[start : start + size + (1 if index < rest else 0)])


class AverageByCircle:
    """Dealt like cards."""

    name = "AVG_BY_CIRCLE"

    def allocate(self, member: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
        index = _index_of(member, members)
        return [] if index is None else list(queues[index :: len(members)])


class ConsistentHash:
    """A ring of hashes: a member that comes or goes moves few queues."""

    name = "CONSISTENT_HASH"

    def __init__(
        self,
        virtual_nodes: int = VIRTUAL_NODES_DEFAULT,
        hash_of: Callable[[str], int] | None = None,
    ) -> None:
        if virtual_nodes < 1:
            raise ConfigError(f"{virtual_nodes} virtual nodes: at least 1 is needed")
        self._virtual_nodes = virtual_nodes
        self._hash_of = hash_of or _md5_hash

    def allocate(self, member: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
        if _index_of(member, members) is None:
            return []
        # Should two nodes meet, the later one has the place, as in an ordered map.
        ring = {
            self._hash_of(f"{each}-{number}"): each
            for each in members
            for number in range(self._virtual_nodes)
        }
        places = sorted(ring)
        return [queue for queue in queues if self._owner(queue, ring, places) == member]

    def _owner(self, queue: MessageQueue, ring: Mapping[int, str], places: list[int]) -> str:
        at = bisect_left(places, self._hash_of(_queue_text(queue)))
        return ring[places[at if at < len(places) else 0]]


class MachineRoom:
    """Only queues of brokers named `room@name`, of the rooms given."""

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        self._rooms = frozenset(rooms)

    def allocate(self, member: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
        index = _index_of(member, members)
        if index is None:
            return []
        kept = [queue for queue in queues if self._is_kept(queue)]
        size, rest = divmod(len(kept), len(members))
        share = kept[index * size : (index + 1) * size]
        if index < rest:
            share.append(kept[len(members) * size + index])
        return share

    def _is_kept(self, queue: MessageQueue) -> bool:
        room, at, name = queue.broker_name.partition("@")
        return bool(at) and "@" not in name and room in self._rooms


class Fixed:
    """Queues that the user names, whoever else is there."""

    name = "CONFIG"

    def __init__(self, queues: Collection[MessageQueue]) -> None:
        self._queues = list(queues)

    def allocate(self, member: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
        return list(self._queues)


class MachineRoomNearby:
    """Members serve the brokers of their own room, and together those of rooms without members."""

    def __init__(
        self,
        inner: AllocationStrategy,
        room_of_broker: Callable[[MessageQueue], str],
        room_of_member: Callable[[str], str],
    ) -> None:
        self._inner = inner
        self._room_of_broker = room_of_broker
        self._room_of_member = room_of_member

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self._inner.name}"

    def allocate(self, member: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
        if _index_of(member, members) is None:
            return []
        queues_by_room: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_by_room.setdefault(_room(self._room_of_broker(queue), queue), []).append(queue)
        members_by_room: dict[str, list[str]] = {}
        for each in members:
            members_by_room.setdefault(_room(self._room_of_member(each), each), []).append(each)
        own = self._room_of_member(member)
        share: list[MessageQueue] = []
        if own in queues_by_room:
            share += self._inner.allocate(member, queues_by_room.pop(own), members_by_room[own])
        for room in sorted(queues_by_room.keys() - members_by_room.keys()):
            share += self._inner.allocate(member, queues_by_room[room], members)
        return share


def _room(room: str, of: object) -> str:
    if not room:
        raise ConfigError(f"{of} is in no machine room")
    return room


def _index_of(member: str, members: Sequence[str]) -> int | None:
    """None: the broker does not count this member yet, which then has nothing."""
    try:
        return members.index(member)
    except ValueError:
        return None


def _queue_text(queue: MessageQueue) -> str:
    """As official clients print a queue: they hash that text."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def _md5_hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")
