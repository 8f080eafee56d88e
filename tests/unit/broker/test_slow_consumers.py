import pytest

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.members import Client, Consumers, Manner
from emberq.broker.slow_consumers import SlowConsumers
from emberq.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel

MANNER = Manner(
    ConsumeType.CONSUME_PASSIVELY,
    MessageModel.CLUSTERING,
    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
)


class FakeStore:
    """A log of 5,000 bytes whose messages have one byte each."""

    def bytes_behind(self, topic: str, queue_id: int, offset: int) -> int:
        return 5000 - offset


class FakeOffsets:
    def next_pulls(self) -> list[tuple[str, str, int, int]]:
        return [
            ("slow", "T", 0, 5000),
            ("slow", "T", 1, 3999),
            ("fast", "T", 0, 4000),
            ("offline", "T", 0, 0),
        ]


@pytest.mark.parametrize("is_wanted", [True, False])
async def test_groups_that_read_too_slowly_read_no_more_if_wanted(is_wanted: bool) -> None:
    groups = Groups(is_auto_created=lambda: True, now_ms=lambda: 1)
    consumers = Consumers()
    for name in ("slow", "fast"):
        consumers.register(name, Client(name, name, "JAVA", 513), MANNER, [], 0)
    for name in ("slow", "fast", "offline"):
        groups.find(name)
    config = BrokerConfig(
        disable_consume_if_consumer_read_slowly=is_wanted, consumer_fallbehind_threshold=1000
    )

    await SlowConsumers(
        store=FakeStore(),
        offsets=FakeOffsets(),
        consumers=consumers,
        groups=groups,
        config=lambda: config,
    ).check()

    disabled = [name for name, group in groups.all().items() if not group.is_consume_enabled]
    assert disabled == (["slow"] if is_wanted else [])
