"""SQL92 filters: what official brokers answer, and limits of our own."""

from pathlib import Path

import pytest

from emberq.broker.filters.sql import EXPRESSION_LENGTH_MAX, compile_sql
from emberq.broker.filters.sql_operands import NESTING_MAX
from emberq.errors import FilterError

CAPTURED = Path(__file__).parents[3] / "golden" / "sql92" / "5.5.0.tsv"


def result(expression: str, properties: dict[str, str]) -> str:
    try:
        value = compile_sql(expression).evaluate(properties)
    except FilterError:
        return "refused"
    except ValueError:
        return "error"
    return "null" if value is None else str(value).upper()


def captured_cases() -> list[tuple[str, str, dict[str, str]]]:
    cases = []
    for line in CAPTURED.read_text("utf-8").splitlines():
        expected, expression, *items = line.split("\t")
        properties = {name: value for name, _, value in (item.partition("=") for item in items)}
        cases.append((expected, expression.replace("\\n", "\n"), properties))
    return cases


def test_every_captured_expression_has_the_official_result() -> None:
    different = [
        (expected, expression, properties)
        for expected, expression, properties in captured_cases()
        if result(expression, properties) != expected
    ]

    assert different == []


def test_only_true_is_a_match() -> None:
    assert compile_sql("a > 5").matches({"a": "6"})
    assert not compile_sql("a > 5").matches({"a": "4"})
    assert not compile_sql("a > 5").matches({})
    assert not compile_sql("a > 5").matches({"a": "5.5"})


@pytest.mark.parametrize("prefix", ["(", "NOT ", "+"])
def test_nesting_has_a_limit_and_is_fine_below_it(prefix: str) -> None:
    def nested(depth: int) -> str:
        return prefix * depth + "a" + ")" * depth * (prefix == "(")

    compile_sql(nested(NESTING_MAX)).matches({"a": "1"})
    with pytest.raises(FilterError, match="nested"):
        compile_sql(nested(NESTING_MAX + 1))


def test_long_chains_are_not_nested() -> None:
    terms = [f"a = {number}" for number in range(3_000)]

    assert compile_sql(" OR ".join(terms)).matches({"a": "2999"})
    assert not compile_sql(" AND ".join(terms)).matches({"a": "2999"})


@pytest.mark.parametrize("operator", ["=", "<>"])
def test_chains_of_comparisons_have_the_same_limit(operator: str) -> None:
    with pytest.raises(FilterError, match="nested"):
        compile_sql(f" {operator} ".join(["a"] * (NESTING_MAX + 2)))


def test_an_expression_has_a_longest_length() -> None:
    with pytest.raises(FilterError, match="characters"):
        compile_sql("a = '" + "x" * EXPRESSION_LENGTH_MAX + "'")


@pytest.mark.parametrize("expression", ["", " ", "(", "a =", "a IN ()", "a IN ('x'", "1", "'x'"])
def test_half_an_expression_is_refused(expression: str) -> None:
    with pytest.raises(FilterError):
        compile_sql(expression)
