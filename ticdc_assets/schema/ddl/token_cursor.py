"""A cursor over the tokens of one statement, from left to right. Its `fault` refuses what is not understood."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl.tokens import Token, TokenKind, is_restored, syntax_fault, tokens_of

_HEAD_WORDS: Final = 4  # CREATE OR REPLACE PROCEDURE
_T = TypeVar("_T")
_BACKSLASHES: Final = re.compile(r"\\+")
_LITERAL_TYPES: Final = ("DATE", "TIME", "TIMESTAMP")
# Objects whose bodies may hold statements, with semicolons between them, up to the end of the text.
_WITH_BODY: Final = frozenset(("PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "DEFINER", "AGGREGATE"))
_INTRODUCED: Final = (TokenKind.STRING, TokenKind.HEX, TokenKind.BITS)


class TokenCursor:
    """Reads one statement's tokens from left to right; `fault` is the error for a token that does not fit."""

    def __init__(self, text: str, tokens: list[Token], restored: bool = False) -> None:
        end = tokens[-1].end if tokens else 0
        self._text = text
        self._restored = restored
        self._tokens = [*tokens, Token(TokenKind.END, "", end, end)]
        self.position = 0

    def peek(self, ahead: int = 0) -> Token:
        """The token `ahead` of the next one, the end token past the end."""
        return self._tokens[min(self.position + ahead, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Return the next token and move past it."""
        token = self.peek()
        self.position = min(self.position + 1, len(self._tokens) - 1)
        return token

    @property
    def done(self) -> bool:
        """Whether all tokens are taken."""
        return self.peek().kind is TokenKind.END

    def at(self, *words: str) -> bool:
        """Whether these keywords come next, in this order."""
        return all(self.peek(i).word == word for i, word in enumerate(words))

    def at_any(self, *words: str) -> bool:
        """Whether one of these keywords comes next."""
        return self.peek().word in words

    def at_symbol(self, symbol: str) -> bool:
        """Whether this symbol comes next; a name in quotes with the same text does not count."""
        token = self.peek()
        return token.kind is TokenKind.SYMBOL and token.text == symbol

    def accept(self, *words: str) -> bool:
        """Take these keywords if all of them come next."""
        if not self.at(*words):
            return False
        self.position += len(words)
        return True

    def accept_any(self, *words: str) -> str:
        """Take and return one of these keywords; "" if none comes next."""
        return self.take().word if self.at_any(*words) else ""

    def accept_symbol(self, symbol: str) -> bool:
        """Take the symbol if it is next. Returns whether it was."""
        if not self.at_symbol(symbol):
            return False
        self.take()
        return True

    def expect(self, *words: str) -> None:
        """Take these words. Raises SchemaError where others are next."""
        if not self.accept(*words):
            raise self.fault(" ".join(words))

    def expect_symbol(self, symbol: str) -> None:
        """Take the symbol. Raises SchemaError where it is not next."""
        if not self.accept_symbol(symbol):
            raise self.fault(f"'{symbol}'")

    def fault(self, expected: str) -> SchemaError:
        """The error for the next token: its position and its kind. A keyword is named, a value is not."""
        token = self.peek()
        return syntax_fault(token.start, expected, _described(token))

    def identifier(self) -> str:
        """A name: in backticks, unquoted, or in double quotes (ANSI_QUOTES; nothing else fits where a name must be)."""
        token = self.peek()
        ansi = token.kind is TokenKind.STRING and self._text[token.start] == '"'
        if not token.text or not (ansi or token.kind in (TokenKind.WORD, TokenKind.QUOTED)):
            raise self.fault("a name")
        return self.take().text

    def column_name(self) -> str:
        """A column's name, whatever table it is qualified with."""
        name = self.identifier()
        while self.accept_symbol("."):
            name = self.identifier()
        return name

    def table_name(self, default_schema: str) -> tuple[str, str]:
        """Take a table name, as schema and table; `default_schema` where it has one part."""
        first = self.identifier()
        return (first, self.identifier()) if self.accept_symbol(".") else (default_schema, first)

    def integer(self) -> int:
        """Take a whole number. Raises SchemaError where none is next."""
        token = self.peek()
        if token.kind is not TokenKind.NUMBER or not token.text.isdigit() or len(token.text) > 20:
            raise self.fault("a whole number")
        return int(self.take().text)

    def string(self) -> str:
        """Take a string literal, unescaped. Raises SchemaError where none is next."""
        if self.peek().kind is not TokenKind.STRING:
            raise self.fault("a string")
        return self.take().text

    def value_string(self) -> str:
        """A string that is a value: a default, a partition's bound, a function's argument.

        TiDB restores these with doubled backslashes, whatever the sql_mode, and mostly with an introducer
        (`_UTF8MB4'x'`), which table routes leave out; labels of ENUM and SET and comments have neither. Where a
        backslash is not doubled, none is: an older TiDB wrote the text.
        """
        text = self.string()
        runs = _BACKSLASHES.findall(text) if self._restored else ()
        return text.replace("\\\\", "\\") if all(len(run) % 2 == 0 for run in runs) and runs else text

    def skip_introducers(self) -> None:
        """Skip the words that give the type of the literal after them, such as `DATE _UTF8MB4'2024-01-01'`."""
        ahead = 0
        while self.peek(ahead).word in _LITERAL_TYPES or self.peek(ahead).word.startswith("_"):
            ahead += 1
        if self.peek(ahead).kind in _INTRODUCED:
            self.position += ahead

    def comma_list(self, read: Callable[[], _T]) -> tuple[_T, ...]:
        """One or more items with commas between them."""
        items = [read()]
        while self.accept_symbol(","):
            items.append(read())
        return tuple(items)

    def in_parentheses(self, read: Callable[[], _T]) -> tuple[_T, ...]:
        """One or more items with commas between them, in parentheses."""
        self.expect_symbol("(")
        items = self.comma_list(read)
        self.expect_symbol(")")
        return items

    def parenthesised(self) -> str:
        """What lies between '(' and its ')', as written."""
        start = self.peek().end
        self.expect_symbol("(")
        self.skip_expression()
        while self.accept_symbol(","):
            self.skip_expression()
        end = self.peek().start
        self.expect_symbol(")")
        return self._text[start:end].strip()

    def close_parentheses(self, count: int) -> bool:
        """Take up to `count` ')'. Returns whether there were that many."""
        taken = 0
        while taken < count and self.accept_symbol(")"):
            taken += 1
        return taken == count

    def skip_expression(self) -> str:
        """Skip everything up to a ',' or ')' outside of parentheses, or the end. Returns the skipped text."""
        start, depth = self.peek().start, 0
        while not self.done:
            symbol = self.peek().text if self.peek().kind is TokenKind.SYMBOL else ""
            if not depth and symbol in (",", ")"):
                break
            depth += (symbol == "(") - (symbol == ")")
            self.take()
        return self.source_since(start)

    def source_since(self, start: int) -> str:
        """The text from `start` to the last token taken."""
        return self._text[start : self._tokens[self.position - 1].end] if self.position else ""

    def skip_all(self) -> None:
        """Skip the rest of the statement."""
        self.position = len(self._tokens) - 1

    def finish(self, expected: str = "the end of the statement") -> None:
        """Require that all tokens are taken. Raises SchemaError where one is left."""
        if not self.done:
            raise self.fault(expected)


def _described(token: Token) -> str:
    if token.kind is TokenKind.WORD:
        return f"the word {token.text[:64]}"
    if token.kind is TokenKind.SYMBOL:
        return f"'{token.text}'"
    return {
        TokenKind.QUOTED: "a quoted name",
        TokenKind.END: "the end of the statement",
    }.get(token.kind, f"a {token.kind} literal")


def cursor_over(text: str, restored: bool | None = None) -> TokenCursor:
    """A cursor over one piece of text."""
    restored = is_restored(text, restored)
    return TokenCursor(text, list(tokens_of(text, restored)), restored)


def statement_cursors(text: str, restored: bool | None = None) -> Iterator[TokenCursor]:
    """A cursor over each of the statements that semicolons separate; empty ones are left out.

    What TiCDC or Canal send is one statement of a user: where it makes something with a body, only its first words are
    read (`_begins_body`), and the semicolons behind them separate nothing.
    """
    is_sent = restored is not None
    restored = is_restored(text, restored)
    waiting: list[Token] = []
    for token in tokens_of(text, restored):
        if token.kind is TokenKind.SYMBOL and token.text == ";":
            if waiting:
                yield TokenCursor(text, waiting, restored)
            waiting = []
            continue
        waiting.append(token)
        if is_sent and len(waiting) <= _HEAD_WORDS and _begins_body([token.word for token in waiting]):
            yield TokenCursor(text, waiting, restored)
            return
    if waiting:
        yield TokenCursor(text, waiting, restored)


def _begins_body(words: list[str]) -> bool:
    """Whether a statement that begins with these words makes something whose body may hold other statements."""
    if words[0] not in ("CREATE", "ALTER"):
        return False
    return (words[3:4] if words[1:3] == ["OR", "REPLACE"] else words[1:2]) in ([word] for word in _WITH_BODY)
