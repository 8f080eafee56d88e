"""Tag expressions."""

import pytest

from emberq.errors import FilterError
from emberq.protocol.subscriptions import TAGS_MAX, is_tag_type, parse_subscription, parse_tags


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_nothing_means_every_tag(expression: str | None) -> None:
    subscription = parse_tags(expression, "Orders")

    assert (subscription.expression, subscription.tags) == ("*", [])
    assert subscription.topic == "Orders"


def test_tags_are_trimmed_and_counted_once() -> None:
    subscription = parse_tags("TagA || TagB|| ||TagA", "Orders", 7)

    assert subscription.tags == ["TagA", "TagB"]
    assert subscription.tag_codes == [2598919, 2598920]
    assert subscription.expression == "TagA || TagB|| ||TagA"
    assert subscription.version == 7


def test_blanks_alone_subscribe_nothing() -> None:
    assert parse_tags(" ").tags == []
    assert parse_tags("|| ").tags == []


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_separators_alone_are_refused(expression: str) -> None:
    with pytest.raises(FilterError):
        parse_tags(expression)


def test_there_are_not_more_tags_than_the_limit() -> None:
    with pytest.raises(FilterError, match="limit"):
        parse_tags("||".join("x" * (TAGS_MAX + 1)))


def test_types_of_expressions() -> None:
    assert is_tag_type(None)
    assert is_tag_type("")
    assert is_tag_type("TAG")
    assert not is_tag_type("SQL92")
    assert parse_subscription("a > 1", "SQL92", "T").expression_type == "SQL92"
    assert parse_subscription("A", None, "T").tags == ["A"]
    with pytest.raises(FilterError, match="empty"):
        parse_subscription("", "SQL92", "T")
    with pytest.raises(FilterError, match="unknown"):
        parse_subscription("x", "GROOVY", "T")
