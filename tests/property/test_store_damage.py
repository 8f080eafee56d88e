"""One flipped bit or a cut-off file, anywhere: what is served is true, and almost all is served."""

from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emberq.errors import StoreDamaged
from emberq.record.record import Record
from emberq.store.message_store import MessageStore
from emberq.testing.faulty_disk import FaultyDisk
from tests.support.stores import Clock, new_store, opened, put, read_all

pytestmark = pytest.mark.property

QUEUES = [("Orders", 0), ("Orders", 1), ("Bills", 0)]
COUNT = 90
Place = tuple[str, int, int]


class Intact(NamedTuple):
    """A store of several segments that was closed, and its messages."""

    disk: FaultyDisk
    messages: dict[Place, Record]

    def __repr__(self) -> str:
        """Short: hypothesis prints it with every example that fails."""
        return f"Intact({len(self.messages)} messages)"


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Intact:
    root = tmp_path_factory.mktemp("intact")  # only its lock file is real
    disk = FaultyDisk(root)
    clock = Clock()
    with opened(root, disk, clock) as store:
        for number in range(COUNT):
            clock.now_ms += 700
            topic, queue_id = QUEUES[number % 3]
            body = b"%d/" % number * (1 + number * 7 % 200)
            put(store, body, topic=topic, queue_id=queue_id, tags="A", keys=f"k{number}")
        messages = messages_of(store)
    assert len(messages) == COUNT
    return Intact(disk, messages)


def messages_of(store: MessageStore) -> dict[Place, Record]:
    return {
        (topic, queue_id, record.queue_offset): record
        for topic, queue_id in QUEUES
        for record in read_all(store, topic, queue_id)
    }


def check(disk: FaultyDisk, messages: dict[Place, Record], lost_max: int) -> None:
    """Open the store and compare; twice, because the first start may have changed something."""
    lost: list[int] = []
    for _ in range(2):
        with opened(disk.root, disk) as store:
            found = messages_of(store)
        for place, record in found.items():
            assert bytes(record.body) == bytes(messages[place].body)
            assert record.topic == messages[place].topic
            assert record.log_offset == messages[place].log_offset
        lost.append(len(messages) - len(found))
    assert lost[0] <= lost_max
    assert lost[1] <= lost[0]


def flipped(intact: Intact, position: float, bit: int, kind: str) -> FaultyDisk:
    disk = intact.disk.copy()
    paths = [path for path in disk.files() if kind in str(path)]
    total = sum(len(disk.content_of(path)) for path in paths)
    at = int(position * total)
    for path in paths:
        content = disk.content_of(path)
        if at < len(content):
            content[at] ^= 1 << bit
            return disk
        at -= len(content)
    raise AssertionError("no such position")


ANYWHERE = st.floats(0, 1, exclude_max=True)
BITS = st.integers(0, 7)


@settings(max_examples=60, deadline=None)
@given(position=ANYWHERE, bit=BITS)
def test_a_flipped_bit_in_the_log_costs_at_most_one_message(
    intact: Intact, position: float, bit: int
) -> None:
    check(flipped(intact, position, bit, "commitlog"), intact.messages, lost_max=1)


@settings(max_examples=60, deadline=None)
@given(position=ANYWHERE, bit=BITS)
def test_a_flipped_bit_in_a_queue_costs_at_most_one_message(
    intact: Intact, position: float, bit: int
) -> None:
    check(flipped(intact, position, bit, "consumequeue"), intact.messages, lost_max=1)


@settings(max_examples=40, deadline=None)
@given(position=ANYWHERE, bit=BITS, kind=st.sampled_from(["index", "checkpoint"]))
def test_a_flipped_bit_in_index_or_checkpoint_costs_nothing(
    intact: Intact, position: float, bit: int, kind: str
) -> None:
    check(flipped(intact, position, bit, kind), intact.messages, lost_max=0)


@settings(max_examples=60, deadline=None)
@given(position=ANYWHERE, bit=BITS)
@example(position=6.103515625e-05, bit=7)  # a size that leads over an intact record to the next
def test_a_flipped_bit_is_survived_without_queues_too(
    intact: Intact, position: float, bit: int
) -> None:
    """Rebuilding has nothing but the log: a record's own queue and offset may be what is wrong."""
    disk = flipped(intact, position, bit, "commitlog")
    for path in disk.files():
        if "consumequeue" in str(path):
            disk.remove(path)

    check(disk, intact.messages, lost_max=1)


@settings(max_examples=60, deadline=None)
@given(number=st.integers(0, 10**6), position=ANYWHERE)
def test_a_file_that_lost_its_end_is_told_or_rebuilt(
    intact: Intact, number: int, position: float
) -> None:
    disk = intact.disk.copy()
    path = disk.files()[number % len(disk.files())]
    content = disk.content_of(path)
    del content[int(position * len(content)) :]
    segments = [path for path in disk.files() if path.parent.name == "commitlog"]
    if path in segments and (any(content) or path != segments[-1]):
        with pytest.raises(StoreDamaged, match="mappedFileSizeCommitLog"):
            new_store(disk.root, disk).open()
        return
    if path in segments:  # as if it was being made when the process died
        store = new_store(disk.root, disk)
        assert store.open().damages
        store.close()
        return

    check(disk, intact.messages, lost_max=0)
