"""Bytes that no producer sends, made from bytes that one did: seeded, so that a number names an input for ever.

Half of the mutants keep their form and lie in one place (a token of JSON replaced, a member doubled, a body swapped):
they get past the parser. The other half are damaged anywhere: bits, cuts, splices, lengths.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Packed = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, eq=False)
class Seed:
    """A sound input as its bodies, and how they become a message's key and value.

    `context` is what the target needs to know of it, such as the columns of its rows.
    """

    bodies: tuple[bytes, ...]
    pack: Callable[[Sequence[bytes]], Packed]
    context: Any = None


def alone(bodies: Sequence[bytes]) -> Packed:
    """One body without a key."""
    return None, bodies[0]


def key_and_value(bodies: Sequence[bytes]) -> Packed:
    return bodies[0], bodies[1]


@dataclass(frozen=True)
class Mutant:
    """A damaged input and the seed that it was."""

    key: bytes | None
    value: bytes | None
    seed: Seed


TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|[{}\[\],:]')
DEEP = 1100

HOSTILE_TOKENS = [
    *(b"null true false 0 -1 1 2 3 255 -0 0.5 1e2 [] {} [[]] [null] [{}] NaN Infinity -Infinity".split()),
    *(b"2147483648 -2147483649 4294967296 9223372036854775807 9223372036854775808 -9223372036854775809".split()),
    *(b"18446744073709551615 18446744073709551616 1e19 1e308 1e400 -1e400 1e-400 1E+2147483648".split()),
    b"9" * 65,
    b"1" + b"0" * 400,
    b"0." + b"0" * 400 + b"1",
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"0" + b"}" * DEEP,
    b'""',
    b'" "',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"\xc0\xaf"',
    b'"\xef\xbb\xbf"',
    b'"' + b"a" * 300 + b'"',
    b'"' + b"9" * 300 + b'"',
    *(b'"%s"' % text for text in b"0 -0 -1 1e400 NaN inf -inf +1 0x10 1_000 --5 . - 1. .5 9223372036854775808".split()),
    *(b'"%s"' % text for text in b"18446744073709551616 0000-00-00 2024-02-30 9999-12-31 -838:59:59".split()),
    b'"99999999999999999999999999999999999999.9"',
    b'"0000-00-00 00:00:00"',
    b'"0001-01-01 00:00:00"',
    b'"9999-12-31 23:59:59.999999"',
    b'"2024-01-01 24:61:61"',
    b'"2024-01-01 00:00:00.1234567"',
    b'"\\u0661\\u0662"',
    b'"+99:99"',
    b'"-12:00"',
    b'"../../etc/passwd"',
    b'"/"',
    b'"file:///a/../.."',
    b'"[1e400,1]"',
    b'"[1,[2]]"',
    b'"' + b"[" * DEEP + b'"',
    b'"AA=A"',
    b'"A==="',
    b'"\\\\x"',
    b'"\\\\xzz\\\\"',
    b'"\\\\U00110000"',
    b'"\xf0\x9f\x98\x80"',
    b'{"value":18446744073709551616}',
    b'{"location":"../x","value":"2024-01-01 00:00:00"}',
    b'{"location":"+99:99","value":"2024-01-01 00:00:00"}',
    b'{"location":"America","value":"2024-01-01 00:00:00"}',
    b'{"location":{},"value":[]}',
]
HOSTILE_BYTES = [
    *(
        b"\0",
        b"\xff",
        b"\x80",
        b"\r\n",
        b"\n",
        b'"',
        b'""',
        b"\\",
        b"\\N",
        b",",
        b"{",
        b"}",
        b"[",
        b"]",
        b"\xed\xa0\x80",
    ),
    *(b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\x80" * 20, b"\x7f" + b"\xff" * 7, b"\x80" + b"\0" * 7, b"\xff" * 8),
    *(
        b"\x01",
        b"\x02",
        b"\x03",
        b"\0" * 8,
        b"\0\0\0\0\0\0\0\x01",
        b"/*!",
        b"*/",
        b"(" * 200,
        b"'",
        b"`",
        b"\xe2\x80\xa8",
    ),
]
LENGTHS = [0, 1, 2, 7, 8, 255, 256, 65535, 1 << 20, 1 << 28, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
LENGTHS += [1 << 32, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


@dataclass
class Mutator:
    """Mutants of the seeds, the same ones for the same number; `tokens` replace what is between structure."""

    seeds: Sequence[Seed]
    number: int = 0
    tokens: Sequence[bytes] = field(default_factory=lambda: HOSTILE_TOKENS)
    grammar: re.Pattern[bytes] = TOKENS

    def mutants(self, count: int) -> Iterator[Mutant]:
        """So many mutants; the n-th depends on `number` and n alone."""
        self._dice = random.Random(self.number)
        self._spans: dict[bytes, list[tuple[int, int]]] = {}
        for _ in range(count):
            seed = self.seeds[int(self._dice.random() * len(self.seeds))]
            yield self._mutant(seed)

    def _mutant(self, seed: Seed) -> Mutant:
        dice = self._dice.random()
        if dice < 0.7:
            bodies = list(seed.bodies)
            at = self._below(len(bodies))
            bodies[at] = self._restructured(bodies[at]) if dice < 0.5 else self._damaged(bodies[at])
            return Mutant(*seed.pack(bodies), seed)
        key, value = seed.pack(seed.bodies)
        if dice < 0.96:
            if key and self._dice.random() < 0.3:
                return Mutant(self._damaged(key), value, seed)
            return Mutant(key, self._damaged(value or b""), seed)
        other = self._choice(self.seeds)
        foreign = other.pack(other.bodies)
        return self._choice(
            [
                Mutant(foreign[0], value, seed),
                Mutant(None, value, seed),
                Mutant(b"", value, seed),
                Mutant(key, None, seed),
                Mutant(key, b"", seed),
                Mutant(value, key, seed),
            ]
        )

    # -- form kept ----------------------------------------------------------------------------------------------------

    def _restructured(self, body: bytes) -> bytes:
        spans = self._spans.get(body)
        if spans is None:
            spans = self._spans[body] = [found.span() for found in self.grammar.finditer(body)]
        if len(spans) < 3:
            return self._damaged(body)
        if self._dice.random() < 0.15:
            return self._doubled(body, spans)
        for at in sorted({self._below(len(spans)) for _ in range(1 + self._below(2))}, reverse=True):
            start, end = spans[at]
            body = body[:start] + self._replacement(body, spans) + body[end:]
        return body

    def _replacement(self, body: bytes, spans: list[tuple[int, int]]) -> bytes:
        if self._dice.random() < 0.2:
            start, end = self._choice(spans)
            return body[start:end]
        return self._choice(self.tokens)

    def _doubled(self, body: bytes, spans: list[tuple[int, int]]) -> bytes:
        """What lies between two tokens, once more: members twice, elements twice."""
        first, last = sorted((self._below(len(spans)), self._below(len(spans))))
        start, end = spans[first][0], spans[min(last, first + 8)][1]
        return body[:end] + b"," + body[start:end] + body[end:]

    # -- damaged anywhere ---------------------------------------------------------------------------------------------

    def _damaged(self, data: bytes) -> bytes:
        for _ in range(1 + self._below(3)):
            data = self._choice(_DAMAGES)(self, data)
        return data

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return b"\x00"
        at = self._below(len(data))
        return data[:at] + bytes([data[at] ^ (1 << self._below(8))]) + data[at + 1 :]

    def _cut(self, data: bytes) -> bytes:
        return data[: self._below(len(data) + 1)]

    def _lose(self, data: bytes) -> bytes:
        start = self._below(len(data) + 1)
        return data[:start] + data[start + 1 + self._below(16) :]

    def _repeat(self, data: bytes) -> bytes:
        start = self._below(len(data) + 1)
        chunk = data[start : start + 1 + self._below(32)]
        return data[:start] + chunk * (2 + self._below(3)) + data[start:]

    def _splice(self, data: bytes) -> bytes:
        other = self._choice(self._choice(self.seeds).bodies)
        return data[: self._below(len(data) + 1)] + other[self._below(len(other) + 1) :]

    def _insert(self, data: bytes) -> bytes:
        at = self._below(len(data) + 1)
        return data[:at] + self._choice(HOSTILE_BYTES) + data[at:]

    def _length(self, data: bytes) -> bytes:
        width = self._choice((1, 2, 4, 8))
        length = self._choice(LENGTHS) % (1 << 8 * width)
        order: Any = "big" if self._dice.random() < 0.7 else "little"
        # Lengths are more often at the beginning.
        at = self._below(min(len(data), 24) + 1) if self._dice.random() < 0.5 else self._below(len(data) + 1)
        return data[:at] + length.to_bytes(width, order) + data[at + width :]

    def _below(self, limit: int) -> int:
        return int(self._dice.random() * limit)

    def _choice(self, options: Sequence[Any]) -> Any:
        return options[int(self._dice.random() * len(options))]


_DAMAGES = (
    *(Mutator._flip, Mutator._flip, Mutator._cut, Mutator._lose, Mutator._repeat, Mutator._splice),
    *(Mutator._insert, Mutator._insert, Mutator._length, Mutator._length),
)
