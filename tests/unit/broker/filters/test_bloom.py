"""Positions in bit maps that EmberQ does not keep."""

from emberq.broker.filters.bloom import bloom_positions


def test_positions_are_those_of_official_brokers() -> None:
    assert bloom_positions("g", "t") == [22, 87, 58]
    assert bloom_positions("GroupName", "SomeTopicName") == [94, 55, 50]
    assert bloom_positions("abcdefgh", "ijklmno") == [98, 65, 32]
    assert bloom_positions("ü", "日本") == [3, 52, 101]
