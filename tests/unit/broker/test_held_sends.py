"""Sends that wait for the disk."""

from collections.abc import Callable
from typing import cast

from emberq.broker.held_sends import HeldSends
from emberq.protocol.command import ONEWAY_BIT, Command, answer
from emberq.remoting.connection import Connection
from emberq.store.results import PutStatus
from tests.unit.broker.sending import Peer


class Disk:
    def __init__(self) -> None:
        self.waiting: list[tuple[int, Callable[[PutStatus], None]]] = []

    def when_durable(self, offset: int, done: Callable[[PutStatus], None]) -> None:
        self.waiting.append((offset, done))


def test_the_answer_leaves_when_the_disk_has_the_message() -> None:
    disk, peer, command = Disk(), Peer(), Command(code=310, opaque=7, body=b"large")
    held = HeldSends(disk.when_durable)

    held.hold(command, cast(Connection, peer), 400, lambda _: answer(command))
    assert (peer.answered, peer.requests_in_flight, held.count) == ([], 1, 1)
    assert command.body == b"", "the log has it"

    [(offset, done)] = disk.waiting
    done(PutStatus.PUT_OK)
    assert offset == 400
    assert [response.opaque for response in peer.answered] == [7]
    assert (peer.requests_in_flight, held.count) == (0, 0)


def test_the_outcome_makes_the_answer() -> None:
    disk, peer, command = Disk(), Peer(), Command(code=310)
    held = HeldSends(disk.when_durable)

    held.hold(command, cast(Connection, peer), 1, lambda s: answer(command, len(s.name)))
    disk.waiting[0][1](PutStatus.FLUSH_DISK_TIMEOUT)

    assert [response.code for response in peer.answered] == [len("FLUSH_DISK_TIMEOUT")]


def test_nobody_hears_of_a_oneway_send() -> None:
    disk, peer, command = Disk(), Peer(), Command(code=310, flag=ONEWAY_BIT)
    HeldSends(disk.when_durable).hold(command, cast(Connection, peer), 1, lambda _: answer(command))

    disk.waiting[0][1](PutStatus.PUT_OK)

    assert peer.answered == []


def test_there_is_a_limit() -> None:
    held = HeldSends(Disk().when_durable, held_max=2)
    for _ in range(2):
        assert not held.is_full
        held.hold(Command(), cast(Connection, Peer()), 1, lambda _: None)

    assert held.is_full


def test_waits_are_counted() -> None:
    times_ms, waits = iter([100, 107]), list[tuple[str, str, int]]()
    disk, peer = Disk(), Peer()
    held = HeldSends(
        disk.when_durable,
        count_wait_ms=lambda *wait: waits.append(wait),
        steady_ms=lambda: next(times_ms),
    )

    held.hold(
        Command(fields={"b": "T", "e": "3"}), cast(Connection, peer), 1, lambda _: answer(Command())
    )
    disk.waiting[0][1](PutStatus.PUT_OK)

    assert waits == [("T", "3", 7)]
