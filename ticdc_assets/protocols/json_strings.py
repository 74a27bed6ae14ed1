"""The strings of many JSON texts at once: where each begins and ends, and what it says.

The texts are known to be well-formed (see `json_grammar`): then a quote is a string's end or start if no backslash
escapes it, and they take turns. So all strings are found by whole-array comparisons, and none of them is copied
before it is known to be wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")


@dataclass(frozen=True, slots=True)
class Strings:
    """The strings of texts, names and values alike, in order: `data[opens[n]]` and `data[closes[n]]` are quotes.

    The n-th one says `pool[place[n]]`; `text` is the ordinal of the text it is in.
    """

    data: Bytes
    opens: Ints
    closes: Ints
    text: Ints
    pool: pa.Array
    place: Ints


def strings(texts: pa.Array) -> Strings:
    """The strings of well-formed JSON texts, a binary array without nulls."""
    data, offsets = joined(texts)
    if not len(data):
        nothing = np.zeros(0, np.int64)
        return Strings(data, nothing, nothing, nothing, pa.array([], pa.string()), nothing)
    quotes = _unescaped_quotes(data)
    assert len(quotes) % 2 == 0
    opens, closes = quotes[0::2], quotes[1::2]
    text = np.repeat(np.arange(len(texts)), np.diff(np.searchsorted(opens, offsets)))
    place = np.arange(len(opens)) * 2
    pool = slices(data, opens + 1, closes)
    slashes = np.flatnonzero(data == _BACKSLASH)
    if len(slashes):
        has_escape = np.zeros(len(opens), np.bool_)
        has_escape[np.searchsorted(opens, slashes) - 1] = True
        escaped = np.flatnonzero(has_escape)
        place[escaped] = len(pool) + np.arange(len(escaped))
        pool = pa.concat_arrays([pool, _unescaped(data, opens[escaped], closes[escaped])])
    return Strings(data, opens, closes, text, pool, place)


def joined(texts: pa.Array) -> tuple[Bytes, Ints]:
    """The bytes of all texts, one after the other, and where each begins; one entry more for the end."""
    if not len(texts):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets_buffer, data = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    if data is None:
        return np.zeros(0, np.uint8), offsets - offsets[0]
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def slices(data: Bytes, starts: Ints, ends: Ints) -> pa.Array:
    """An array over `data` whose entry 2n is `data[starts[n]:ends[n]]`, without a copy; the others lie between."""
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    count = max(0, len(offsets) - 1)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def cut(texts: pa.Array, starts: Ints, ends: Ints) -> pa.Array:
    """Of each text the bytes from `starts` to `ends`, counted from its own start."""
    data, offsets = joined(texts)
    base = offsets[:-1]
    return slices(data, base + starts, base + ends).take(pa.array(np.arange(len(texts)) * 2))


def _unescaped_quotes(data: Bytes) -> Ints:
    quotes = np.flatnonzero(data == QUOTE)
    escaped = data[quotes - 1] == _BACKSLASH
    unsure = np.flatnonzero(escaped & (data[quotes - 2] == _BACKSLASH))
    if len(unsure):
        escaped[unsure] = np.isin(quotes[unsure] - 1, escaping(data), assume_unique=True)
    found: Ints = quotes[~escaped]
    return found


def escaping(data: Bytes) -> Ints:
    """The backslashes that escape the next character: the first, third, .. of each run."""
    slashes = np.flatnonzero(data == _BACKSLASH)
    if not len(slashes):
        return slashes
    is_first = np.empty(len(slashes), np.bool_)
    is_first[0] = True
    np.not_equal(slashes[1:], slashes[:-1] + 1, out=is_first[1:])
    first = np.maximum.accumulate(np.where(is_first, slashes, 0))
    found: Ints = slashes[(slashes - first) % 2 == 0]
    return found


def _unescaped(data: Bytes, opens: Ints, closes: Ints) -> pa.Array:
    quoted = slices(data, opens, closes + 1).take(pa.array(np.arange(len(opens)) * 2))
    whole = pa.ListArray.from_arrays(pa.array([0, len(quoted)], pa.int32()), quoted)
    listed = pc.binary_join(whole, ",").view(pa.binary())[0].as_py()
    return pa.array(orjson.loads(b"[" + listed + b"]"), pa.string())
