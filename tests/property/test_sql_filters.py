"""Compiled filters do what a naive evaluator of the same tree does; garbage never gets through."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.broker.filters.sql import compile_sql
from emberq.errors import FilterError

pytestmark = pytest.mark.property

# A tree: what it is, and its parts. `Wrong` stands for an evaluation that fails.
Tree = tuple[Any, ...]
NAMES = st.sampled_from("abc")
VALUES = st.sampled_from(("1", "2", "3", "-1", "x", "true", "", "2147483648", "1.5"))
PROPERTIES = st.dictionaries(NAMES, VALUES)
INTEGERS = st.integers(0, 3)

LEAVES: st.SearchStrategy[Tree] = st.one_of(
    st.tuples(st.sampled_from((">", ">=", "<", "<=", "=", "<>")), NAMES, INTEGERS),
    st.tuples(st.just("text"), NAMES, st.sampled_from(("x", "1", "it's"))),
    st.tuples(st.sampled_from(("IN", "NOT IN")), NAMES, st.lists(VALUES, min_size=1, max_size=3)),
    st.tuples(st.just("BETWEEN"), NAMES, INTEGERS, st.integers(4, 5)),
    st.tuples(st.sampled_from(("IS NULL", "IS NOT NULL")), NAMES),
    st.tuples(st.just("CONTAINS"), NAMES, st.sampled_from(("1", "x", ""))),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.just("NOT"), inner), st.tuples(st.sampled_from(("AND", "OR")), inner, inner)
    ),
    max_leaves=8,
)


class Wrong(Exception):
    """A value is not what it is compared as."""


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def text_of(tree: Tree) -> str:  # noqa: PLR0911 - a row per kind of tree
    match tree:
        case ("AND" | "OR" as operator, left, right):
            return f"({text_of(left)}) {operator} ({text_of(right)})"
        case ("NOT", inner):
            return f"NOT ({text_of(inner)})"
        case ("text", name, value):
            return f"{name} = {quoted(value)}"
        case ("IN" | "NOT IN" as operator, name, values):
            return f"{name} {operator} ({', '.join(map(quoted, values))})"
        case ("BETWEEN", name, low, high):
            return f"{name} BETWEEN {low} AND {high}"
        case ("IS NULL" | "IS NOT NULL" as operator, name):
            return f"{name} {operator}"
        case ("CONTAINS", name, value):
            return f"{name} CONTAINS {quoted(value)}"
        case (operator, name, number):
            return f"{name} {operator} {number}"
    raise AssertionError(tree)


def number_of(text: str) -> int:
    if not text.removeprefix("-").isdigit() or not -(1 << 31) <= int(text) < 1 << 31:
        raise Wrong
    return int(text)


def naive(tree: Tree, properties: dict[str, str]) -> bool | None:
    match tree:
        case ("AND", left, right):
            first = naive(left, properties)
            if first is False:
                return False
            second = naive(right, properties)
            return False if second is False else None if None in (first, second) else True
        case ("OR", left, right):
            first = naive(left, properties)
            if first is True:
                return True
            second = naive(right, properties)
            return True if second is True else None if None in (first, second) else False
        case ("NOT", inner):
            value = naive(inner, properties)
            return None if value is None else not value
    result: bool | None = naive_leaf(tree, properties.get(tree[1]))
    return result


def naive_leaf(tree: Tree, value: str | None) -> Any:  # noqa: PLR0911 - a row per kind
    match tree:
        case ("IS NULL", _):
            return value is None
        case ("IS NOT NULL", _):
            return value is not None
        case ("CONTAINS", _, search):
            return value is not None and search != "" and search in value
    if value is None:
        return None
    match tree:
        case ("text", _, expected):
            return value == expected
        case ("IN", _, values):
            return value in values
        case ("NOT IN", _, values):
            return value not in values
        case ("BETWEEN", _, low, high):
            return low <= number_of(value) <= high
    return naive_order(tree[0], number_of(value), tree[2])


def naive_order(operator: str, left: int, right: int) -> bool:
    return {
        ">": left > right,
        ">=": left >= right,
        "<": left < right,
        "<=": left <= right,
        "=": left == right,
        "<>": left != right,
    }[operator]


@given(TREES, PROPERTIES)
def test_a_compiled_filter_agrees_with_the_naive_one(
    tree: Tree, properties: dict[str, str]
) -> None:
    compiled = compile_sql(text_of(tree))
    try:
        expected: bool | str | None = naive(tree, properties)
    except Wrong:
        expected = "wrong"
    try:
        result: bool | str | None = compiled.evaluate(properties)
    except ValueError:
        result = "wrong"

    assert result == expected
    assert compiled.matches(properties) == (expected is True)


@given(st.text(alphabet="ab10.'()<>=!+-*/, \tNOTANDORIS", max_size=40), PROPERTIES)
def test_any_text_is_refused_or_evaluated(text: str, properties: dict[str, str]) -> None:
    try:
        compiled = compile_sql(text)
    except FilterError:
        return

    assert compiled.matches(properties) in (True, False)
