"""The strings of many JSON texts at once: where each begins and ends, and what it says.

The texts are known to be well-formed (see `json_grammar`): then a quote is a string's end or start if no backslash
escapes it, and they take turns. So all strings are found by whole-array comparisons, and none of them is copied
before it is known to be wanted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa

from ticdc_assets.protocols.escapes import JSON, escaping, unescaped
from ticdc_assets.protocols.joined_texts import BACKSLASH, QUOTE, Bytes, Ints, Mask, joined, slices


@dataclass(frozen=True, slots=True)
class Strings:
    """The strings of texts, names and values alike, in order: `data[opens[n]]` and `data[closes[n]]` are quotes.

    The n-th one says `pool[place[n]]`; `first` is the ordinal of each text's first string.
    """

    data: Bytes
    opens: Ints
    closes: Ints
    first: Ints
    pool: pa.Array
    place: Ints

    def count_by_text(self, ordinals: Ints) -> Ints:
        """How many of these strings each text has."""
        return np.diff(np.append(np.searchsorted(ordinals, self.first), len(ordinals)))

    def are_first(self) -> Mask:
        """Which strings are the first of their text."""
        found = np.zeros(len(self.opens), np.bool_)
        found[self.first] = True
        return found


def strings(texts: pa.Array) -> Strings:
    """The strings of well-formed JSON texts, a binary array without nulls."""
    data, offsets = joined(texts)
    if not len(data):
        nothing = np.zeros(0, np.int64)
        return Strings(data, nothing, nothing, nothing, pa.array([], pa.string()), nothing)
    quotes = _unescaped_quotes(data)
    assert len(quotes) % 2 == 0
    opens, closes = quotes[0::2], quotes[1::2]
    first = np.searchsorted(opens, offsets[:-1])
    place = np.arange(len(opens)) * 2
    pool = slices(data, opens + 1, closes)
    slashes = np.flatnonzero(data == BACKSLASH)
    if len(slashes):
        has_escape = np.zeros(len(opens), np.bool_)
        has_escape[np.searchsorted(opens, slashes) - 1] = True
        escaped = np.flatnonzero(has_escape)
        place[escaped] = len(pool) + np.arange(len(escaped))
        pool = pa.concat_arrays([pool, _unescaped(data, opens[escaped], closes[escaped])])
    return Strings(data, opens, closes, first, pool, place)


def _unescaped_quotes(data: Bytes) -> Ints:
    quotes = np.flatnonzero(data == QUOTE)
    escaped = data[quotes - 1] == BACKSLASH
    unsure = np.flatnonzero(escaped)
    unsure = unsure[data[quotes[unsure] - 2] == BACKSLASH]
    if len(unsure):
        slashes, before = escaping(data), quotes[unsure] - 1
        escaped[unsure] = slashes[np.minimum(np.searchsorted(slashes, before), len(slashes) - 1)] == before
    found: Ints = quotes[~escaped]
    return found


def _unescaped(data: Bytes, opens: Ints, closes: Ints) -> pa.Array:
    count = pa.array(np.arange(len(opens)) * 2)
    found = unescaped(slices(data, opens + 1, closes).take(count), JSON)
    if found is not None:
        return found.view(pa.string())
    quoted = slices(data, opens, closes + 1).take(count).view(pa.binary())
    return pa.array(orjson.loads(b"[" + b",".join(quoted.to_pylist()) + b"]"), pa.string())
