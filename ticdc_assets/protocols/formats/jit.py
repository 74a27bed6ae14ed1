"""Loops over bytes, compiled to machine code when they are first called.

The code is cached next to the source or in the user's cache folder, so only the first process waits some seconds for
the compiler. `formats.jit_cache` says when it is compiled again.

References to arrays are not counted, since the caller holds them anyway: counting took two thirds of the time of loops
that pass arrays to functions.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, ParamSpec, TypeVar

import numba

from ticdc_assets.protocols.formats.jit_cache import SourcesCache

_P = ParamSpec("_P")
_T = TypeVar("_T")

_OPTIONS: Final = {"nogil": True, "_nrt": False}


def compiled(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function as machine code. It takes numbers and NumPy arrays, creates no arrays, and raises no errors."""
    found: Any = numba.njit(**_OPTIONS)(function)
    if not numba.config.DISABLE_JIT:
        with suppress(RuntimeError):  # no writable folder for the cache
            found._cache = SourcesCache(function)  # noqa: SLF001 (as `cache=True` does, with another cache)
    code: Callable[_P, _T] = found
    return code


def inlined(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same for a small function of inner loops: its code goes into each function that calls it."""
    found: Callable[_P, _T] = numba.njit(forceinline=True, **_OPTIONS)(function)
    return found
