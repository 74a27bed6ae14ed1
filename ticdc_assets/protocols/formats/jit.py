"""Loops over bytes, compiled to machine code when they are first called.

The code is cached next to the source or in the user's cache folder, so only the first process waits some seconds for
the compiler. The cache is renewed when the file of the outermost function changes, not the files of functions that it
calls. A compiled function therefore calls functions of no other file except `formats.simd`.

References to arrays are not counted, since the caller holds them anyway: counting took two thirds of the time of loops
that pass arrays to functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

import numba

_P = ParamSpec("_P")
_T = TypeVar("_T")

_OPTIONS: Final = {"nogil": True, "_nrt": False}


def compiled(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function as machine code. It takes numbers and NumPy arrays, creates no arrays, and raises no errors."""
    try:
        found: Callable[_P, _T] = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder to keep it in can be written
        found = numba.njit(**_OPTIONS)(function)
    return found


def inlined(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same for a small function of inner loops: its code goes into each function that calls it."""
    found: Callable[_P, _T] = numba.njit(forceinline=True, **_OPTIONS)(function)
    return found
