from emberq.nameserver.kv_table import KeyValueTable


def test_a_change_gives_a_new_table_and_leaves_the_old_one() -> None:
    before = KeyValueTable({"n": {"k": "1"}})

    after = before.with_value("n", "k", "2").with_value("m", "", "")

    assert before.namespaces() == {"n": {"k": "1"}}
    assert after.namespaces() == {"n": {"k": "2"}, "m": {"": ""}}


def test_absent_things_are_none() -> None:
    table = KeyValueTable({"n": {"k": "1"}})

    assert table.get("n", "k") == "1"
    assert table.get("n", "other") is None
    assert table.get("other", "k") is None
    assert table.list("n") == {"k": "1"}
    assert table.list("other") is None


def test_an_emptied_namespace_is_still_one() -> None:
    table = KeyValueTable({"n": {"k": "1"}}).without("n", "k")

    assert table.list("n") == {}


def test_taking_away_what_is_not_there_changes_nothing() -> None:
    table = KeyValueTable({"n": {"k": "1"}})

    assert table.without("n", "other") is table
    assert table.without("other", "k") is table


def test_a_table_does_not_follow_what_it_was_made_from() -> None:
    source = {"n": {"k": "1"}}
    table = KeyValueTable(source)

    source["n"]["k"] = "2"

    assert table.get("n", "k") == "1"
