"""The life of a group's filters."""

from pathlib import Path

from msgspec.structs import replace

from emberq.broker.filters.group_filters import (
    DEAD_BEFORE_START_MS,
    FORGOTTEN_AFTER_MS,
    GroupFilters,
)
from emberq.broker.metadata_files import MetadataFiles
from emberq.model.subscription import SQL92_EXPRESSION, Subscription

NOW = 1_700_000_000_000


def sql(expression: str, version: int = 1, topic: str = "Orders") -> Subscription:
    return Subscription(
        topic=topic, expression=expression, expression_type=SQL92_EXPRESSION, version=version
    )


def registered(*subscriptions: Subscription, now_ms: int = NOW) -> GroupFilters:
    filters = GroupFilters()
    filters.register("g", subscriptions, now_ms)
    return filters


def expression_of(filters: GroupFilters, topic: str = "Orders") -> str | None:
    found = filters.get(topic, "g")
    return None if found is None else found.filter.expression


def is_dead(filters: GroupFilters, topic: str = "Orders") -> bool:
    found = filters.get(topic, "g")
    assert found is not None
    return found.is_dead


def test_a_heartbeat_brings_a_filter_and_a_newer_one_replaces_it() -> None:
    filters = registered(sql("a > 1", 5))

    filters.register("g", [sql("a > 2", 6)], NOW)

    assert expression_of(filters) == "a > 2"


def test_an_older_or_equal_version_changes_nothing() -> None:
    filters = registered(sql("a > 1", 5))

    filters.register("g", [sql("a > 2", 5)], NOW)
    filters.register("g", [sql("a > 3", 4)], NOW)

    assert expression_of(filters) == "a > 1"


def test_tag_subscriptions_have_no_filter() -> None:
    filters = registered(Subscription(topic="Orders", expression="A||B"), sql("", topic="Other"))

    assert expression_of(filters) is None
    assert expression_of(filters, "Other") is None


def test_an_expression_that_does_not_compile_takes_the_old_one_away() -> None:
    filters = registered(sql("a > 1", 1))

    filters.register("g", [sql("a != 1", 2)], NOW)

    assert expression_of(filters) is None
    assert expression_of(registered(sql("a != 1"))) is None


def test_the_same_expression_with_a_new_version_stays_born_when_it_was() -> None:
    filters = registered(sql("a > 1", 1))

    filters.register("g", [sql("a > 1", 9)], NOW + 5)

    found = filters.get("Orders", "g")
    assert found is not None
    assert (found.version, found.born_at_ms) == (9, NOW)


def test_filters_die_with_their_group_and_come_back_with_it() -> None:
    filters = registered(sql("a > 1", 1))

    filters.group_gone("g", NOW + 10)
    assert is_dead(filters)
    filters.register("g", [sql("a > 1", 1)], NOW + 20)

    assert not is_dead(filters)


def test_topics_that_a_heartbeat_does_not_name_die() -> None:
    filters = registered(sql("a > 1", 1), sql("b > 1", 1, "Bills"))

    filters.register("g", [sql("b > 1", 1, "Bills")], NOW + 1)

    assert is_dead(filters)
    assert not is_dead(filters, "Bills")


def test_what_is_dead_for_a_day_is_forgotten() -> None:
    filters = registered(sql("a > 1", 1))
    filters.group_gone("g", NOW)

    assert filters.clean(NOW + FORGOTTEN_AFTER_MS - 1) == 0
    assert filters.clean(NOW + FORGOTTEN_AFTER_MS) == 1
    assert expression_of(filters) is None


def test_a_restart_finds_them_dead_since_a_while(tmp_path: Path) -> None:
    file = MetadataFiles(tmp_path).filters
    file.save(registered(sql("a > 1", 3)).table())

    later = NOW + 3_600_000
    filters = GroupFilters(later, file.load())

    found = filters.get("Orders", "g")
    assert found is not None
    assert (found.version, found.born_at_ms) == (3, NOW)
    assert found.dead_at_ms == later - DEAD_BEFORE_START_MS
    assert found.filter.matches({"a": "2"})


def test_a_file_with_an_expression_that_does_not_compile_loses_only_that_one() -> None:
    table = registered(sql("a > 1", 1), sql("b > 1", 1, "Bills")).table()
    orders = table.topics["Orders"]
    broken = replace(orders, groups={"g": replace(orders.groups["g"], expression="a !")})

    filters = GroupFilters(NOW, replace(table, topics={**table.topics, "Orders": broken}))

    assert expression_of(filters) is None
    assert expression_of(filters, "Bills") == "b > 1"


def test_listeners_hear_of_changes_only() -> None:
    heard = []
    filters = GroupFilters()
    filters.on_change(lambda: heard.append(1))

    filters.register("g", [sql("a > 1", 1)], NOW)
    filters.register("g", [sql("a > 1", 1)], NOW)

    assert len(heard) == 1
