"""Consumer groups of a broker."""

from emberq.broker.groups import Groups
from emberq.model.group import GroupConfig


def new_groups(*, is_auto_created: bool = True) -> Groups:
    return Groups(is_auto_created=lambda: is_auto_created, now_ms=lambda: 1_000)


def test_a_new_broker_has_the_official_groups() -> None:
    assert set(new_groups().all()) == {
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
        "CID_RMQ_SYS_TRANS",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "TOOLS_CONSUMER",
    }


def test_a_group_comes_into_being_when_it_is_looked_for() -> None:
    groups = new_groups()
    changed: list[str] = []
    groups.on_change(changed.append)

    found = groups.find("billing")

    assert found == GroupConfig(name="billing")
    assert groups.get("billing") == found
    assert changed == ["billing"]
    assert groups.version.counter == 1


def test_without_auto_creation_only_system_groups_come_into_being() -> None:
    groups = new_groups(is_auto_created=False)

    assert groups.find("billing") is None
    assert groups.find("CID_RMQ_SYS_x") is not None


def test_a_name_that_is_none_makes_no_group() -> None:
    groups = new_groups()

    assert groups.find("a b") is None
    assert groups.find("") is None
    assert groups.find("a" * 120) is not None
    assert groups.find("a" * 121) is None


def test_a_change_of_nothing_is_none() -> None:
    groups = new_groups()

    assert groups.put(GroupConfig(name="billing", retry_count_max=3)) is True
    assert groups.put(GroupConfig(name="billing", retry_count_max=3)) is False
    assert groups.version.counter == 1


def test_a_slow_group_is_stopped_until_somebody_allows_it() -> None:
    groups = new_groups()
    groups.find("billing")

    groups.disable_consume("billing")
    groups.disable_consume("unknown")

    group = groups.get("billing")
    assert group is not None
    assert not group.is_consume_enabled
    assert groups.get("unknown") is None


def test_what_is_forbidden_is_kept_bit_by_bit() -> None:
    groups = new_groups()

    groups.set_forbidden("billing", "orders", 0, True)
    groups.set_forbidden("billing", "orders", 3, True)
    both = groups.table().forbidden
    groups.set_forbidden("billing", "orders", 0, False)

    assert both == {"billing": {"orders": 9}}
    assert not groups.is_forbidden("billing", "orders", 0)
    assert groups.is_forbidden("billing", "orders", 3)
    assert not groups.is_forbidden("billing", "other", 3)
    groups.set_forbidden("billing", "orders", 3, False)
    assert groups.table().forbidden == {}


def test_a_removed_group_is_forgotten_with_all_that_belongs_to_it() -> None:
    groups = new_groups()
    groups.find("billing")
    groups.set_forbidden("billing", "orders", 0, True)

    assert groups.remove("billing") is True
    assert groups.remove("billing") is False
    assert groups.table().forbidden == {}


def test_a_stored_table_is_read_again() -> None:
    groups = new_groups()
    groups.put(GroupConfig(name="billing", retry_count_max=3))
    groups.set_forbidden("billing", "orders", 1, True)

    again = Groups(is_auto_created=lambda: True, now_ms=lambda: 2_000, stored=groups.table())

    assert again.table() == groups.table()
