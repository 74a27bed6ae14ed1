"""Reads the changes of many keys in as many passes as memory demands, each with a part of the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

Part = TypeVar("Part")

HELD_BYTES_MAX: Final = 256 << 20
"""Memory for the changes of one pass."""

_MORE_PASSES: Final = 4


class TooManyChangesError(Exception):
    """The changes of a pass take too much memory."""


def in_passes(one_pass: Callable[[int, int], Part]) -> Iterator[Part]:
    """The results of `one_pass(bucket, buckets)`, which reads the keys of part `bucket` of `buckets` parts
    (`in_bucket`).

    A pass that raises TooManyChangesError is divided.
    """
    left = [(0, 1)]
    while left:
        bucket, buckets = left.pop()
        try:
            part = one_pass(bucket, buckets)
        except TooManyChangesError:
            left += [(bucket + n * buckets, buckets * _MORE_PASSES) for n in range(_MORE_PASSES)]
            continue
        yield part
