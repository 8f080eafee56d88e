"""Filters of messages, tried on records."""

import pytest

from emberq.broker.filters.group_filters import GroupFilters
from emberq.broker.filters.message_filter import (
    EVERYTHING,
    EXPRESSION_LENGTH_CACHED_MAX,
    by_sql_of_origin,
    by_tags,
    carried_subscription,
)
from emberq.errors import FilterError, RecordError
from emberq.model.subscription import SQL92_EXPRESSION, Subscription
from emberq.record.decode import read_properties
from emberq.record.encode import encode_record
from emberq.record.host import PackedHost, pack_host
from emberq.record.properties import encode_properties
from emberq.record.string_hash import tag_code

IPV4, IPV6 = pack_host("10.1.2.3", 10911), pack_host("fe80::1", 10911)


def record(
    *, born: PackedHost = IPV4, stored: PackedHost = IPV4, topic: str = "T", **named: str
) -> bytes:
    return encode_record(
        topic,
        b"body",
        encode_properties(named),
        queue_id=0,
        flag=0,
        queue_offset=0,
        log_offset=0,
        system_flag=0,
        born_at_ms=0,
        born_host=born,
        stored_at_ms=0,
        store_host=stored,
        reconsume_times=0,
        prepared_offset=0,
    )


def test_tags_are_tested_by_their_code() -> None:
    accepts = carried_subscription("A||B", "TAG", "T").filter.accepts_entry

    assert accepts is not None
    assert accepts(tag_code("A"))
    assert not accepts(tag_code("C"))
    assert carried_subscription("*", None, "T").filter is EVERYTHING
    assert by_tags(Subscription(is_class_filter=True, expression="x")) is EVERYTHING


def test_sql_is_tested_on_the_properties_of_the_record() -> None:
    accepts = carried_subscription("a > 5", SQL92_EXPRESSION, "T").filter.accepts_record

    assert accepts is not None
    assert accepts(record(a="6"))
    assert accepts(memoryview(record(a="6")))
    assert not accepts(record(a="5"))
    assert not accepts(record())


def test_what_is_no_record_is_left_to_the_reader() -> None:
    accepts = carried_subscription("a > 5", SQL92_EXPRESSION, "T").filter.accepts_record

    assert accepts is not None
    assert accepts(record(a="6")[:40])


@pytest.mark.parametrize("expression", ["a != 1", "x" * (EXPRESSION_LENGTH_CACHED_MAX + 1) + " ="])
def test_an_expression_that_does_not_compile_is_refused(expression: str) -> None:
    with pytest.raises(FilterError):
        carried_subscription(expression, SQL92_EXPRESSION, "T")


def test_retries_are_tested_by_the_filter_of_the_topic_they_came_from() -> None:
    filters = GroupFilters()
    sql = Subscription(
        topic="Orders", expression="a > 5", expression_type=SQL92_EXPRESSION, version=1
    )
    filters.register("g", [sql], 1)
    accepts = by_sql_of_origin("%RETRY%g", filters).accepts_record

    assert accepts is not None
    assert accepts(record(RETRY_TOPIC="Orders", a="6"))
    assert not accepts(record(RETRY_TOPIC="Orders", a="1"))
    assert accepts(record(RETRY_TOPIC="Bills", a="1"))
    assert accepts(record(a="1"))


def test_properties_are_found_whatever_stands_before_them() -> None:
    for born in (IPV4, IPV6):
        for stored in (IPV4, IPV6):
            for topic in ("T", "x" * 200):
                content = record(born=born, stored=stored, topic=topic, a="1", b="2")
                assert read_properties(content) == encode_properties({"a": "1", "b": "2"})


def test_a_torn_record_has_no_properties() -> None:
    whole = record(a="1")
    for size in range(len(whole)):
        with pytest.raises(RecordError):
            read_properties(whole[:size])
