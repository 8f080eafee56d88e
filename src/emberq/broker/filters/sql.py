"""SQL92 filter expressions: text in, a compiled filter out.

    expression = and { OR and }
    and        = equality { AND equality }
    equality   = comparison { "=" comparison | "<>" comparison | IS [NOT] NULL }
    comparison = unary { (">"|">="|"<"|"<=") unary | [NOT] BETWEEN unary AND unary
                       | [NOT] IN "(" text {"," text} ")"
                       | [NOT] (CONTAINS|STARTSWITH|ENDSWITH) text }
    unary      = "+" unary | "-" unary | NOT unary | literal | property | "(" expression ")"

The rules are generators and `_run` is their stack: nesting is bounded by a limit of ours and not
by the interpreter's.
"""

from collections.abc import Callable, Generator

from emberq.broker.filters.java_numbers import INT_MAX, LONG_MAX
from emberq.broker.filters.sql_lexer import FLOAT, INTEGER, PROPERTY, STRING, Tokens
from emberq.broker.filters.sql_operands import (
    NESTING_MAX,
    ORDERINGS,
    Evaluate,
    Kind,
    Operand,
    Properties,
    all_of,
    any_of,
    as_boolean,
    between,
    constant,
    equal,
    in_list,
    is_null,
    negated,
    not_,
    ordered,
    property_value,
    text_search,
)
from emberq.errors import FilterError

# A request's header takes no longer text; heartbeats are held to the same.
EXPRESSION_LENGTH_MAX = 64 * 1024

_DOUBLE_MAX = 1.7976931348623157e308
_DOUBLE_MIN = 5e-324

Rule = Generator["Rule", Operand, Operand]

_SEARCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


class SqlFilter:
    """A compiled expression. Two of the same text are the same filter."""

    __slots__ = ("_evaluate", "expression")

    def __init__(self, expression: str, evaluate: Evaluate) -> None:
        self.expression = expression
        self._evaluate = evaluate

    def evaluate(self, properties: Properties) -> bool | None:
        """True, False or unknown. Raises ValueError when a value is not what it is compared as."""
        result: bool | None = self._evaluate(properties)
        return result

    def matches(self, properties: Properties) -> bool:
        """Whether a message is wanted; errors and the unknown mean that it is not."""
        try:
            return self._evaluate(properties) is True
        except (ValueError, RecursionError):
            return False


def compile_sql(expression: str) -> SqlFilter:
    """Raises FilterError if the text is no expression; what follows one is not looked at."""
    if len(expression) > EXPRESSION_LENGTH_MAX:
        raise FilterError(f"an expression of {len(expression)} characters")
    return SqlFilter(expression, as_boolean(_run(_Parser(expression).expression())).evaluate)


def _run(rule: Rule) -> Operand:
    stack = [rule]
    value: Operand | None = None
    while True:
        try:
            called = next(stack[-1]) if value is None else stack[-1].send(value)
        except StopIteration as finished:
            stack.pop()
            value = finished.value
            if not stack:
                result: Operand = finished.value
                return result
        else:
            stack.append(called)
            value = None


class _Parser:
    def __init__(self, expression: str) -> None:
        self._tokens = Tokens(expression)
        self._nesting = 0

    def expression(self) -> Rule:
        operands = [(yield self._and())]
        while self._tokens.peek() == "OR":
            self._tokens.take()
            operands.append((yield self._and()))
        return any_of(operands)

    def _and(self) -> Rule:
        operands = [(yield self._equality())]
        while self._tokens.peek() == "AND":
            self._tokens.take()
            operands.append((yield self._equality()))
        return all_of(operands)

    def _equality(self) -> Rule:
        left = yield self._comparison()
        while (kind := self._tokens.peek()) in ("=", "<>", "IS"):
            self._tokens.take()
            if kind == "IS":
                is_negated = self._takes_not("NULL")
                self._tokens.expect("NULL")
                left = not_(is_null(left)) if is_negated else is_null(left)
            else:
                left = equal(left, (yield self._comparison()))
                left = left if kind == "=" else not_(left)
        return left

    def _comparison(self) -> Rule:
        tokens = self._tokens
        left = yield self._unary()
        while True:
            kind = tokens.peek()
            if kind in ORDERINGS:
                tokens.take()
                left = ordered(left, (yield self._unary()), ORDERINGS[kind])
                continue
            is_wanted = kind != "NOT"
            if not is_wanted:
                kind = tokens.peek(1)
            if kind == "BETWEEN":
                self._skip(is_wanted)
                low = yield self._unary()
                tokens.expect("AND")
                left = between(left, low, (yield self._unary()), is_wanted=is_wanted)
            elif kind == "IN":
                self._skip(is_wanted)
                found = in_list(left, self._texts())
                left = found if is_wanted else not_(found)
            elif kind in _SEARCHES:
                self._skip(is_wanted)
                search = self._text()
                left = text_search(left, search, _SEARCHES[kind], is_wanted=is_wanted)
            elif not is_wanted:
                raise FilterError("NOT in front of nothing that can be negated")
            else:
                return left

    def _unary(self) -> Rule:
        tokens = self._tokens
        kind = tokens.peek()
        if kind in ("+", "-", "NOT", "("):
            self._nesting += 1
            if self._nesting > NESTING_MAX:
                raise FilterError(f"nested more than {NESTING_MAX} deep")
            tokens.take()
            if kind == "(":
                operand = yield self.expression()
                tokens.expect(")")
            else:
                operand = yield self._unary()
                if kind == "-":
                    operand = negated(operand)
                elif kind == "NOT":
                    operand = not_(operand)
            self._nesting -= 1
            return operand
        return self._primary()

    def _primary(self) -> Operand:
        kind, text, position = self._tokens.take()
        if kind == PROPERTY:
            return property_value(text)
        if kind == STRING:
            return constant(Kind.TEXT, _unquoted(text))
        if kind == INTEGER:
            return _integer(text)
        if kind == FLOAT:
            return _double(text)
        if kind in ("TRUE", "FALSE"):
            return constant(Kind.BOOLEAN, kind == "TRUE")
        if kind == "NULL":
            return constant(Kind.NULL, None)
        raise FilterError(f"unexpected {text or 'end'} at {position}")

    def _takes_not(self, following: str) -> bool:
        if self._tokens.peek() == "NOT" and self._tokens.peek(1) == following:
            self._tokens.take()
            return True
        return False

    def _skip(self, is_wanted: bool) -> None:
        """The operator, and the NOT in front of it."""
        self._tokens.take()
        if not is_wanted:
            self._tokens.take()

    def _texts(self) -> list[str]:
        self._tokens.expect("(")
        texts = [self._text()]
        while self._tokens.peek() == ",":
            self._tokens.take()
            texts.append(self._text())
        self._tokens.expect(")")
        return texts

    def _text(self) -> str:
        return _unquoted(self._tokens.expect(STRING).text)


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _integer(text: str) -> Operand:
    number = int(text.rstrip("lL")) if len(text) <= len(str(LONG_MAX)) + 1 else LONG_MAX + 1
    if number > LONG_MAX:
        raise FilterError(f"{text[:64]} does not fit in 64 bits")
    return constant(Kind.INT if number <= INT_MAX else Kind.LONG, number)


def _double(text: str) -> Operand:
    number = float(text)
    if not _DOUBLE_MIN <= number <= _DOUBLE_MAX:
        raise FilterError(f"{text[:64]} is out of range")
    return constant(Kind.DOUBLE, number)
