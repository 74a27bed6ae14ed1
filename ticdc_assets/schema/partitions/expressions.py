"""The expression that a table is partitioned by, as far as it can be computed from a row exactly.

In: its text. Out: a tree of whole numbers, columns of whole numbers, and functions of columns. TiDB computes in whole
numbers of 64 bits and refuses a row whose result needs more, so a reader may compute in wider ones. Everything else is
refused: TIME, text, fractions, functions whose result depends on a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ticdc_assets.schema.arrow_types import INTEGER_BITS
from ticdc_assets.schema.ddl.token_cursor import TokenCursor, cursor_over
from ticdc_assets.schema.ddl.tokens import TokenKind
from ticdc_assets.schema.model import Column, Kind, TableSchema

DATE_KINDS: Final = frozenset({Kind.DATE, Kind.DATETIME})
_WHOLE_KINDS: Final = frozenset({*INTEGER_BITS, Kind.YEAR})
_TIMED: Final = frozenset({Kind.DATETIME})
_DATE_FUNCTIONS: Final = {
    **dict.fromkeys(("YEAR", "MONTH", "QUARTER", "DAYOFMONTH", "DAYOFYEAR", "DAYOFWEEK", "WEEKDAY"), DATE_KINDS),
    "TO_DAYS": DATE_KINDS,
    **dict.fromkeys(("HOUR", "MINUTE", "SECOND"), _TIMED),
}
_ALIASES: Final = {"DAY": "DAYOFMONTH", "CEIL": "CEILING"}
_UNCHANGED: Final = ("FLOOR", "CEILING")  # of whole numbers
_DEPTH_MAX: Final = 32
_DIGITS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number as written."""

    value: int


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """A column, which holds whole numbers unless a function takes it for a date or time."""

    column: Column


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator: `+ - * DIV %` of two, `NEGATIVE` and `ABS` of one, or a function of a date.

    NULL in an argument is NULL, and so is division by zero; DIV and % go towards zero.
    """

    function: str
    arguments: tuple[Expression, ...]


Expression = Number | ColumnValue | Call


def read_expression(text: str, table: TableSchema) -> Expression:
    """The tree of a partition expression of the table. Raises SchemaError where it is not understood."""
    return _Reader(cursor_over(text), table).whole()


def columns_in(expression: Expression) -> Iterator[Column]:
    """The columns that the expression reads."""
    if isinstance(expression, ColumnValue):
        yield expression.column
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from columns_in(argument)


class _Reader:
    def __init__(self, cursor: TokenCursor, table: TableSchema) -> None:
        self._cursor = cursor
        self._table = table
        self._depth = 0

    def whole(self) -> Expression:
        found = self._sum()
        self._cursor.finish("the end of the partition expression")
        return found

    def _sum(self) -> Expression:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._cursor.fault(f"at most {_DEPTH_MAX} levels of a partition expression")
        found = self._operations(self._product, {"+": "+", "-": "-"}, {})
        self._depth -= 1
        return found

    def _product(self) -> Expression:
        return self._operations(self._operand, {"*": "*", "%": "%"}, {"DIV": "DIV", "MOD": "%"})

    def _operations(self, read: Callable[[], Expression], symbols: dict[str, str], words: dict[str, str]) -> Expression:
        found = read()
        while (function := self._operator(symbols, words)) is not None:
            found = Call(function, (found, read()))
        return found

    def _operator(self, symbols: dict[str, str], words: dict[str, str]) -> str | None:
        token = self._cursor.peek()
        known = symbols.get(token.text) if token.kind is TokenKind.SYMBOL else words.get(token.word)
        if known is not None:
            self._cursor.take()
        return known

    def _operand(self) -> Expression:
        cursor = self._cursor
        if cursor.accept_symbol("-"):
            self._depth += 1
            if self._depth > _DEPTH_MAX:
                raise cursor.fault(f"at most {_DEPTH_MAX} levels of a partition expression")
            operand = self._operand()
            self._depth -= 1
            return Call("NEGATIVE", (operand,))
        if cursor.accept_symbol("("):
            found = self._sum()
            cursor.expect_symbol(")")
            return found
        token = cursor.peek()
        if token.kind is TokenKind.NUMBER:
            if not token.text.isdigit() or len(token.text) > _DIGITS_MAX:
                raise cursor.fault("a whole number")
            return Number(int(cursor.take().text))
        if token.kind is TokenKind.WORD and cursor.peek(1).text == "(" and cursor.peek(1).kind is TokenKind.SYMBOL:
            return self._call()
        return ColumnValue(self._column(_WHOLE_KINDS))

    def _call(self) -> Expression:
        cursor = self._cursor
        word = cursor.peek().word
        function = _ALIASES.get(word, word)
        if function not in (*_DATE_FUNCTIONS, *_UNCHANGED, "ABS", "MOD", "DATEDIFF", "UNIX_TIMESTAMP"):
            raise cursor.fault("a function that can be computed from a row")
        cursor.take()
        cursor.expect_symbol("(")
        found = self._applied(function)
        cursor.expect_symbol(")")
        return found

    def _applied(self, function: str) -> Expression:
        if function in _DATE_FUNCTIONS:
            return Call(function, (ColumnValue(self._column(_DATE_FUNCTIONS[function])),))
        if function == "UNIX_TIMESTAMP":
            column = self._column(frozenset({Kind.TIMESTAMP}))
            if column.type.length:
                raise self._cursor.fault("a TIMESTAMP of whole seconds")
            return Call(function, (ColumnValue(column),))
        if function == "DATEDIFF":
            one = ColumnValue(self._column(DATE_KINDS))
            self._cursor.expect_symbol(",")
            return Call(function, (one, ColumnValue(self._column(DATE_KINDS))))
        first = self._sum()
        if function == "MOD":
            self._cursor.expect_symbol(",")
            return Call("%", (first, self._sum()))
        return first if function in _UNCHANGED else Call(function, (first,))

    def _column(self, kinds: frozenset[Kind]) -> Column:
        if self._cursor.peek().kind not in (TokenKind.WORD, TokenKind.QUOTED):
            raise self._cursor.fault("a column")
        fault = self._cursor.fault("a column of a type that the expression can use")
        column = self._table.column(self._cursor.column_name())
        if column is None or column.virtual or column.type.kind not in kinds:
            raise fault
        return column
