import pytest

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.slow_consumers import SlowConsumers
from emberq.broker.statistics.broker_statistics import BrokerStatistics


@pytest.mark.parametrize("is_wanted", [True, False])
def test_groups_that_read_too_slowly_read_no_more_if_wanted(is_wanted: bool) -> None:
    statistics = BrokerStatistics("C1", is_system_topic=lambda _: False)
    groups = Groups(is_auto_created=lambda: True, now_ms=lambda: 1)
    for name, behind_bytes in (("slow", 1001), ("fast", 1000), ("unknown", 5000)):
        statistics.note_fall_behind(name, "T", 0, behind_bytes, 0)
    groups.find("slow")
    groups.find("fast")
    config = BrokerConfig(
        disable_consume_if_consumer_read_slowly=is_wanted, consumer_fallbehind_threshold=1000
    )

    SlowConsumers(statistics, groups, lambda: config).check()

    slow, fast = groups.get("slow"), groups.get("fast")
    assert slow is not None
    assert fast is not None
    assert slow.is_consume_enabled is not is_wanted
    assert fast.is_consume_enabled
    assert groups.get("unknown") is None
