"""Bytes that are flipped, cut, spliced or replaced, as Hypothesis draws it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

flips = st.tuples(st.just("flip"), st.integers(0, 2000), st.integers(1, 255))
cuts = st.tuples(st.just("cut"), st.integers(0, 2000), st.integers(1, 40))
splices = st.tuples(st.just("splice"), st.integers(0, 2000), st.binary(min_size=1, max_size=12))


def damage(data: bytes, how: tuple[str, int, Any]) -> bytes:
    kind, at, what = how
    at %= len(data) + 1
    if kind == "flip":
        return data[:at] + bytes(b ^ what for b in data[at : at + 1]) + data[at + 1 :]
    return data[:at] + data[at + what :] if kind == "cut" else data[:at] + what + data[at:]


def mutated(body: bytes, data: st.DataObject) -> bytes:
    at = data.draw(st.integers(0, len(body)))
    cut = data.draw(st.integers(at, len(body)))
    return body[:at] + data.draw(st.binary(max_size=6)) + body[cut:]
