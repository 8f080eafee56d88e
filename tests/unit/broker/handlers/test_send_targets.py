"""The checks of a topic, remembered."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from emberq.broker.handlers import send_targets
from emberq.broker.handlers.send_targets import SendTargets, topic_text
from emberq.model.topic import TopicConfig
from tests.unit.broker.sending import BROKER_IP, Sending, send_request, sending

FIELDS = send_request("New").fields or {}


def targets_of(broker: Sending) -> SendTargets:
    return SendTargets(broker.settings, broker.topics, BROKER_IP, broker.clock)


def test_a_topic_is_remembered_until_it_changes(tmp_path: Path) -> None:
    with sending(tmp_path) as broker:
        targets = targets_of(broker)
        target = targets.find("New", FIELDS, {})
        assert targets.get("New") is target

        broker.topics.put(replace(target.config, read_queue_count=9))

        assert targets.get("New") is None
        assert targets.find("New", FIELDS, {}).queue_count == 9


def test_a_change_of_many_or_of_the_configuration_forgets_all(tmp_path: Path) -> None:
    with sending(tmp_path) as broker:
        targets = targets_of(broker)
        for change in (broker.topics.new_version, broker.configure):
            targets.find("New", FIELDS, {})
            change()
            assert targets.get("New") is None


def test_only_so_many_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_targets, "TARGETS_MAX", 2)
    with sending(tmp_path) as broker:
        targets = targets_of(broker)
        for name in ("A", "B", "C"):
            targets.find(name, FIELDS, {})

        assert [targets.get(name) is not None for name in ("A", "B", "C")] == [False, False, True]


def test_a_topic_is_shown_as_official_brokers_show_it() -> None:
    topic = TopicConfig(
        name="T", permission=5, is_ordered=True, attributes={"a": "1", "b": "2"}, system_flag=1
    )

    assert topic_text(topic) == (
        "TopicConfig [topicName=T, readQueueNums=16, writeQueueNums=16, perm=R-X, "
        "topicFilterType=SINGLE_TAG, topicSysFlag=1, order=true, attributes={a=1, b=2}]"
    )
