import pytest

from emberq.broker.attributes import (
    GROUP_ATTRIBUTES,
    TOPIC_ATTRIBUTES,
    changed_attributes,
    parse_changes,
)
from emberq.errors import RequestRejected


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("", {}),
        (",", {}),
        ("+message.type=FIFO", {"+message.type": "FIFO"}),
        ("+message.type=FIFO,-reserve.time,", {"+message.type": "FIFO", "-reserve.time": ""}),
    ],
)
def test_changes_are_read_from_text(text: str, changes: dict[str, str]) -> None:
    assert parse_changes(text) == changes


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        ("+message.type", "delete attribute format is wrong: +message.type"),
        ("+a=1,+a=2", "key duplication: +a"),
        (" ", "delete attribute format is wrong:  "),
        ("+message.type=", "add/alter attribute format is wrong: +message.type="),
    ],
)
def test_text_that_is_no_change_is_refused_in_the_official_words(text: str, remark: str) -> None:
    with pytest.raises(RequestRejected) as refusal:
        parse_changes(text)

    assert (refusal.value.code, refusal.value.remark) == (1, remark)


def test_attributes_are_added_altered_and_deleted() -> None:
    current = {"message.type": "FIFO", "reserve.time": "5"}
    changes = {"+message.type": "DELAY", "-reserve.time": "", "+lite.topic.expiration": "-1"}

    assert changed_attributes(TOPIC_ATTRIBUTES, current, changes) == {
        "message.type": "DELAY",
        "lite.topic.expiration": "-1",
    }
    assert current == {"message.type": "FIFO", "reserve.time": "5"}


TYPES = "UNSPECIFIED, MIXED, TRANSACTION, PRIORITY, FIFO, DELAY, LITE, NORMAL"


@pytest.mark.parametrize(
    ("current", "changes", "remark"),
    [
        ({}, {"+message.type": "fifo"}, f"value is not in set: [{TYPES}]"),
        ({}, {"+nokey": "1"}, "unsupported key: nokey"),
        ({}, {"-nokey": ""}, "attempt to delete a nonexistent key: nokey"),
        (
            None,
            {"-message.type": ""},
            "only add attribute is supported while creating topic. key: message.type",
        ),
        (
            {},
            {"+queue.type": "SimpleCQ"},
            "attempt to update an unchangeable attribute. key: queue.type",
        ),
        ({}, {"+reserve.time": "-2"}, "value is not in range(-1, 9223372036854775807)"),
        ({}, {"+reserve.time": "x"}, 'For input string: "x"'),
        ({}, {"+": "x"}, "kv string format wrong."),
        ({}, {"+a+b": "x"}, "kv string format wrong."),
        (
            {"message.type": "FIFO"},
            {"+message.type": "FIFO", "-message.type": ""},
            "alter duplication key. key: message.type",
        ),
        ({}, {"*message.type": "x"}, "wrong format key: *message.type"),
    ],
)
def test_changes_that_are_not_allowed_are_refused_in_the_official_words(
    current: dict[str, str] | None, changes: dict[str, str], remark: str
) -> None:
    with pytest.raises(RequestRejected) as refusal:
        changed_attributes(TOPIC_ATTRIBUTES, current, changes)

    assert (refusal.value.code, refusal.value.remark) == (1, remark)


@pytest.mark.parametrize(
    ("key", "value"), [("queue.type", "BatchCQ"), ("cleanup.policy", "COMPACTION")]
)
def test_what_this_store_cannot_do_is_refused(key: str, value: str) -> None:
    with pytest.raises(RequestRejected) as refusal:
        changed_attributes(TOPIC_ATTRIBUTES, None, {f"+{key}": value})

    assert (refusal.value.code, refusal.value.remark) == (29, f"{value} is not supported.")


def test_groups_have_attributes_of_their_own() -> None:
    changes = {"+priority.factor": "100", "+lite.bind.topic": "T"}

    assert changed_attributes(GROUP_ATTRIBUTES, None, changes) == {
        "priority.factor": "100",
        "lite.bind.topic": "T",
    }
