from emberq.broker.handlers.paging import is_version, page_of
from emberq.model.data_version import DataVersion

TABLE = {name: name.upper() for name in "cabd"}


def page(first: int | None, count_max: int | None, *, is_same_table: bool = True) -> str:
    return "".join(page_of(TABLE, first=first, count_max=count_max, is_same_table=is_same_table))


def test_without_numbers_the_whole_table_is_told_in_its_own_order() -> None:
    assert page(None, None) == "cabd"


def test_pieces_follow_the_order_of_names() -> None:
    assert page(0, 3) == "abc"
    assert page(3, 3) == "d"
    assert page(4, 3) == ""
    assert page(1, None) == "bcd"


def test_a_table_that_changed_is_told_from_the_beginning() -> None:
    assert page(2, 2, is_same_table=False) == "ab"


def test_numbers_that_mean_nothing_do_no_harm() -> None:
    assert page(-5, -5) == ""
    assert page(None, 1) == "a"


def test_versions_are_compared_as_json() -> None:
    version = DataVersion(counter=3, timestamp_ms=17)

    assert is_version('{"timestamp":17,"counter":3,"stateVersion":0}', version)
    assert not is_version('{"timestamp":17,"counter":4}', version)
    assert not is_version("nonsense", version)
    assert not is_version(None, version)
