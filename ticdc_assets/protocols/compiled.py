"""Loops over bytes, compiled to machine code when they are first called.

The code is kept beside the source, or in the user's cache folder, so that only the first process that needs it waits
some seconds. What is kept is renewed when the file of the outermost function changes, not those of what it calls: so a
compiled function calls no other file's but `byte_vectors`.

References to arrays are not counted: a caller holds them anyway, and two thirds of the time of a loop that hands them
to functions went into that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

import numba

_P = ParamSpec("_P")
_T = TypeVar("_T")

_OPTIONS: Final = {"nogil": True, "_nrt": False}


def compiled(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function as machine code; its arguments are numbers and NumPy arrays; it makes none and raises nothing."""
    try:
        found: Callable[_P, _T] = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder to keep it in can be written
        found = numba.njit(**_OPTIONS)(function)
    return found


def inlined(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same for a small function of inner loops: its code goes into each function that calls it."""
    found: Callable[_P, _T] = numba.njit(forceinline=True, **_OPTIONS)(function)
    return found
