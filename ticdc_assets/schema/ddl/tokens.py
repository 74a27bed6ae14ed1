"""Statement text as tokens.

In: SQL text as TiDB restores it, as SHOW CREATE TABLE prints it, or as people write it. Out: its tokens. The
content of executable comments (`/*! */`, `/*T![feature] */`) counts, as it does to TiDB; other
comments do not. Reading is linear in the text, without recursion, and every fault is a SchemaError that names the
place and the keyword, never a literal's value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

from ticdc_assets.advice import Advice
from ticdc_assets.errors import SchemaError

# TiDB holds one DDL job's text in a transaction entry, 6 MiB by default; a dump file may hold several statements.
TEXT_CHARS_MAX: Final = 16 * 1024 * 1024
# TiDB's largest table, 4,096 columns and 8,192 partitions, is about 200,000 tokens.
STATEMENT_TOKENS_MAX: Final = 400_000


class TokenKind(StrEnum):
    """What a token is; WORD is a keyword or an unquoted name, QUOTED a name in backticks."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    HEX = "hex"
    BITS = "bits"
    SYMBOL = "symbol"
    END = "end"


class Token(NamedTuple):
    """One token: `text` with quotes and escapes undone (HEX and BITS: the digits), and its place in the source."""

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The keyword in upper case; "" for what cannot be one (keywords are ASCII)."""
        return self.text.upper() if self.kind is TokenKind.WORD and self.text.isascii() else ""


_NAME_CHAR = r"[0-9A-Za-z_$\u0080-\U0010ffff]"
_STRINGS = {
    True: (r"[nN]?'(?:[^'\\]++|\\.|'')*+'", r'"(?:[^"\\]++|\\.|"")*+"'),
    False: (r"[nN]?'(?:[^']++|'')*+'", r'"(?:[^"]++|"")*+"'),
}


@cache  # compiled at its first use: commands that read no statement do not wait for it
def _grammar(escapes: bool) -> re.Pattern[str]:
    single, double = _STRINGS[escapes]
    parts = {
        "space": r"[ \t\r\n\f\v]++|\#[^\n]*+|--(?=[\x00-\x20]|\Z)[^\n]*+",
        "open": r"/\*!(?:\d{5,6})?|/\*T!(?:\[[^\]\n]*+\])?",
        "comment": r"/\*.*?\*/",
        "close": r"\*/",
        "quoted": r"`(?:[^`]++|``)*+`",
        "hex": rf"[xX]'[0-9a-fA-F]*+'|0[xX][0-9a-fA-F]++(?!{_NAME_CHAR})",
        "bits": rf"[bB]'[01]*+'|0b[01]++(?!{_NAME_CHAR})",
        "string": f"{single}|{double}",
        "number": rf"(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+(?!{_NAME_CHAR})",
        "word": f"{_NAME_CHAR}++",
        "symbol": r"[(),;.=<>!+\-*%&|^~@:?{}\[\]]|/(?!\*)",
    }
    return re.compile("|".join(f"(?P<{name}>{part})" for name, part in parts.items()), re.DOTALL)


_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_UNTERMINATED: Final = {"`": "the closing `", "'": "the closing '", '"': 'the closing "', "/": "the closing */"}


def _unquoted_string(source: str, escapes: bool) -> str:
    body = source[2:-1] if source[0] in "nN" else source[1:-1]
    quote = source[-1]
    if not escapes or "\\" not in body:
        return body.replace(quote * 2, quote)
    # Doubled quotes are undone between the escapes only: in \'' the first quote belongs to the escape.
    parts = _ESCAPE.split(body)
    parts[0::2] = [plain.replace(quote * 2, quote) for plain in parts[0::2]]
    parts[1::2] = [_ESCAPED.get(char, char) for char in parts[1::2]]
    return "".join(parts)


_KINDS: Final = {kind.value: kind for kind in TokenKind}
_AS_WRITTEN: Final = frozenset({TokenKind.WORD, TokenKind.NUMBER, TokenKind.SYMBOL})


def _plain_text(kind: TokenKind, source: str, escapes: bool) -> str:
    if kind is TokenKind.QUOTED:
        return source[1:-1].replace("``", "`")
    return _unquoted_string(source, escapes) if kind is TokenKind.STRING else source[2:].rstrip("'")


def _scan(text: str, escapes: bool) -> Iterator[Token]:
    match = _grammar(escapes).match
    at, open_comments, tokens = 0, 0, 0
    while at < len(text):
        found = match(text, at)
        if found is None or (found.lastgroup == "close" and not open_comments):
            raise syntax_fault(at, _UNTERMINATED.get(text[at], "SQL text"), "no end of it" if found is None else "*/")
        kind, end = _KINDS.get(found.lastgroup or ""), found.end()
        if kind is not None:
            source = found.group()
            plain = source if kind in _AS_WRITTEN else _plain_text(kind, source, escapes)
            tokens = 0 if source == ";" else tokens + 1
            yield Token(kind, plain, at, end)
        else:
            open_comments += {"open": 1, "close": -1}.get(found.lastgroup or "", 0)
        if tokens > STATEMENT_TOKENS_MAX:
            raise syntax_fault(at, f"at most {STATEMENT_TOKENS_MAX} words in a statement", "more")
        at = end
    if open_comments:
        raise syntax_fault(at, "the closing */", "the end of the text")


def syntax_fault(at: int, expected: str, found: str) -> SchemaError:
    """The error for text that is not understood; `at` is the index of its first character."""
    return SchemaError(f"character {at + 1} of the statement", expected, found, Advice.NEWER_VERSION)


def is_restored(text: str, restored: bool | None) -> bool:
    """Whether TiDB restored a text: `restored`, or where that is None, as its form shows.

    Backslashes escape in MySQL's own text, but not in text that TiDB restores, where quotes are doubled.
    `TokenCursor.value_string` is about strings that are values.
    """
    return "\\" in text and _looks_restored(text) if restored is None else restored


def tokens_of(text: str, restored: bool | None = None) -> Iterator[Token]:
    """The tokens of a text. `restored` is whether TiDB restored it; None decides by its form."""
    if len(text) > TEXT_CHARS_MAX:
        raise syntax_fault(0, f"at most {TEXT_CHARS_MAX} characters", f"{len(text)} characters")
    return _scan(text, escapes=not is_restored(text, restored))


def _looks_restored(text: str) -> bool:
    """TiDB restores on one line, keywords in upper case, names in backticks; SHOW CREATE TABLE and people do not."""
    names = 0
    last: Token | None = None
    try:
        for token in _scan(text, escapes=False):
            between = text[last.end if last else 0 : token.start]
            after_name = last is None or last.kind is TokenKind.QUOTED
            if "\n" in between or (after_name and token.kind is TokenKind.WORD and not token.text.isupper()):
                return False
            names += token.kind is TokenKind.QUOTED
            last = token
    except SchemaError:
        return False
    return names > 0
