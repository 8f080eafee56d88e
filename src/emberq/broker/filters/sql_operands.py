"""What filter expressions are made of, already compiled: each operand is a function of a
message's properties.

Kinds are known when an expression is compiled, for properties are always text: so the conversion
that a comparison needs is chosen once, not per message. Evaluation gives True, False or None
(unknown), or raises ValueError: then the message does not match.
"""

from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from emberq.broker.filters.java_numbers import compare_doubles, parse_double, parse_int, parse_long
from emberq.errors import FilterError

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Any]

# Official brokers overflow their stack somewhere between 800 and 1,000.
NESTING_MAX = 800


class Kind(Enum):
    """What an operand's value is, unless it is null."""

    TEXT = auto()
    INT = auto()
    LONG = auto()
    DOUBLE = auto()
    BOOLEAN = auto()
    NULL = auto()


_PARSE = {Kind.INT: parse_int, Kind.LONG: parse_long, Kind.DOUBLE: parse_double}
_NUMBERS = frozenset(_PARSE)


class Operand(NamedTuple):
    kind: Kind
    evaluate: Evaluate
    depth: int = 0
    is_constant: bool = False  # written as a literal
    is_property: bool = False
    value: Any = None  # of a literal


def constant(kind: Kind, value: Any) -> Operand:
    return Operand(kind, lambda _: value, is_constant=True, value=value)


def property_value(name: str) -> Operand:
    return Operand(Kind.TEXT, lambda properties: properties.get(name), is_property=True)


def _boolean(evaluate: Evaluate, *parts: Operand) -> Operand:
    depth = 1 + max(part.depth for part in parts)
    if depth > NESTING_MAX:
        raise FilterError(f"nested more than {NESTING_MAX} deep")
    return Operand(Kind.BOOLEAN, evaluate, depth)


def as_boolean(operand: Operand) -> Operand:
    """The operand where a truth value is needed; a bare property is never true.

    Raises:
        FilterError: it is a number or a text.
    """
    if operand.kind is Kind.BOOLEAN or (operand.kind is Kind.NULL and operand.is_constant):
        return operand
    if not operand.is_property:
        raise FilterError("the expression does not result in a boolean value")
    evaluate = operand.evaluate
    return _boolean(lambda properties: None if evaluate(properties) is None else False, operand)


def negated(operand: Operand) -> Operand:
    """Unary minus: a number's opposite; of everything else nothing is known."""
    evaluate = operand.evaluate
    depth = operand.depth + 1
    if depth > NESTING_MAX:
        raise FilterError(f"nested more than {NESTING_MAX} deep")
    if operand.kind in _NUMBERS:
        opposite = -operand.value
        return Operand(operand.kind, lambda _: opposite, depth, value=opposite)

    def nothing(properties: Properties) -> None:
        evaluate(properties)  # its error is ours

    return Operand(Kind.NULL, nothing, depth)


def not_(operand: Operand) -> Operand:
    evaluate = as_boolean(operand).evaluate

    def opposite(properties: Properties) -> bool | None:
        value = evaluate(properties)
        return None if value is None else not value

    return _boolean(opposite, operand)


def all_of(operands: list[Operand]) -> Operand:
    """AND: false wins, then unknown; evaluated from the left, up to the first false."""
    if len(operands) == 1:
        return operands[0]
    parts = [as_boolean(operand).evaluate for operand in operands]

    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = True
        for part in parts:
            value = part(properties)
            if value is None:
                result = None
            elif not value:
                return False
        return result

    return _boolean(evaluate, *operands)


def any_of(operands: list[Operand]) -> Operand:
    """OR: true wins, then unknown; evaluated from the left, up to the first true."""
    if len(operands) == 1:
        return operands[0]
    parts = [as_boolean(operand).evaluate for operand in operands]

    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = False
        for part in parts:
            value = part(properties)
            if value is None:
                result = None
            elif value:
                return True
        return result

    return _boolean(evaluate, *operands)


def is_null(operand: Operand) -> Operand:
    evaluate = operand.evaluate
    return _boolean(lambda properties: evaluate(properties) is None, operand)


def in_list(operand: Operand, texts: Collection[str]) -> Operand:
    """Raises FilterError unless a property is looked for."""
    if not operand.is_property:
        raise FilterError("only a property can be looked for with IN")
    evaluate, wanted = operand.evaluate, frozenset(texts)

    def contained(properties: Properties) -> bool | None:
        value = evaluate(properties)
        return None if value is None else value in wanted

    return _boolean(contained, operand)


def text_search(
    operand: Operand, search: str, test: Callable[[str, str], bool], *, is_wanted: bool
) -> Operand:
    """CONTAINS and its kin; without the property, or with nothing to search for, never true."""
    evaluate = operand.evaluate

    def found(properties: Properties) -> bool:
        value = evaluate(properties) if search else None
        return isinstance(value, str) and test(value, search) is is_wanted

    return _boolean(found, operand)


# Comparisons


def ordered(left: Operand, right: Operand, accepts: Callable[[int], bool]) -> Operand:
    """`<` and its kin; `accepts` is told how the left side stands to the right one.

    Raises:
        FilterError: a text, a truth value or NULL was written on one side.
    """
    for operand in (left, right):
        if operand.kind is Kind.BOOLEAN or (operand.is_constant and operand.kind not in _NUMBERS):
            raise FilterError("texts and truth values have no order")
    is_text = left.kind is right.kind is Kind.TEXT
    compare = _compare_texts_as_doubles if is_text else _comparison(left.kind, right.kind)
    left_value, right_value = left.evaluate, right.evaluate

    def evaluate(properties: Properties) -> bool | None:
        one = left_value(properties)
        if one is None:
            return None
        other = right_value(properties)
        return None if other is None else accepts(compare(one, other))

    return _boolean(evaluate, left, right)


def equal(left: Operand, right: Operand) -> Operand:
    """Raises FilterError if NULL is compared, or a truth value with a literal of another kind."""
    for operand in (left, right):
        if operand.is_constant and operand.kind is Kind.NULL:
            raise FilterError("NULL cannot be compared, write IS NULL")
    if (
        left.is_constant
        and right.is_constant
        and left.kind is Kind.BOOLEAN
        and right.kind is not Kind.BOOLEAN
    ):
        raise FilterError("a truth value cannot be compared with this literal")
    compare = _comparison(left.kind, right.kind)
    left_value, right_value = left.evaluate, right.evaluate

    def evaluate(properties: Properties) -> bool | None:
        one = left_value(properties)
        other = right_value(properties)
        if one is None:
            return True if other is None else None
        if other is None:
            return False
        return compare(one, other) == 0

    return _boolean(evaluate, left, right)


def between(operand: Operand, low: Operand, high: Operand, *, is_wanted: bool) -> Operand:
    """Raises FilterError if the literals are out of order; NOT BETWEEN takes them as they are."""
    if is_wanted:
        borders = (low, high)
        is_literal = all(border.is_constant and border.kind in _NUMBERS for border in borders)
        if is_literal and low.value > high.value:
            raise FilterError("the borders of BETWEEN are out of order")
        return all_of([ordered(operand, low, _at_least), ordered(operand, high, _at_most)])
    return any_of([ordered(operand, low, _below), ordered(operand, high, _above)])


def _at_least(order: int) -> bool:
    return order >= 0


def _at_most(order: int) -> bool:
    return order <= 0


def _below(order: int) -> bool:
    return order < 0


def _above(order: int) -> bool:
    return order > 0


ORDERINGS: dict[str, Callable[[int], bool]] = {
    ">": _above,
    ">=": _at_least,
    "<": _below,
    "<=": _at_most,
}

Compare = Callable[[Any, Any], int]
_DIFFERENT = 1


def _comparison(left: Kind, right: Kind) -> Compare:
    """How two values that are not null compare: text is read as the kind of the other side."""
    if left is right:
        return compare_doubles if left is Kind.DOUBLE else _compare_alike
    if Kind.BOOLEAN in (left, right):
        return _comparison_with_boolean(left, right)
    if left is Kind.TEXT and right in _NUMBERS:
        parse, compare = _PARSE[right], _comparison(right, right)
        return lambda one, other: compare(parse(one), other)
    if right is Kind.TEXT and left in _NUMBERS:
        parse, compare = _PARSE[left], _comparison(left, left)
        return lambda one, other: compare(one, parse(other))
    if Kind.DOUBLE in (left, right):
        return lambda one, other: compare_doubles(float(one), float(other))
    return _compare_alike


def _comparison_with_boolean(left: Kind, right: Kind) -> Compare:
    if left is Kind.TEXT:
        return lambda one, other: _compare_alike(one.lower() == "true", other)
    if right is Kind.TEXT:
        return _refuse
    return lambda _one, _other: _DIFFERENT


def _refuse(_one: Any, _other: Any) -> int:
    """Official filters convert the wrong side and fail; so `TRUE = a` never matches."""
    raise ValueError("a truth value on the left cannot be compared with a text")


def _compare_alike(one: Any, other: Any) -> int:
    return 0 if one == other else -1 if one < other else 1


def _compare_texts_as_doubles(one: str, other: str) -> int:
    return compare_doubles(parse_double(one), parse_double(other))
