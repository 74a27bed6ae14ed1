"""Loops over bytes, compiled to machine code when they are first called.

The code is cached next to the source or in the user's cache folder, so only the first process waits some seconds for
the compiler.

References to arrays are not counted, since the caller holds them anyway: counting took two thirds of the time of loops
that pass arrays to functions.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final, ParamSpec, TypeVar

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache

_IMPORT: Final = re.compile(r"^from ([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)


class _SourcesCacheFiles(CompileResultCacheImpl):  # type: ignore[misc]  # numba has no types
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = _digest(function.__module__)
        self.locator.get_source_stamp = lambda: stamp


class SourcesCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """The cache of one function, which numba reads and writes as it does its own, until a file changes from which it
    was compiled.

    Numba compares only the file of the compiled function. The machine code also contains functions and constants of
    other modules. Without their digest, a change of these modules would leave old code in use, which reads data
    wrongly. Here the code of a function is valid for the contents of its module and of all modules of the same package
    that this one imports, directly or not.

    Raises:
        RuntimeError: There is no folder to write to.
    """

    _impl_class = _SourcesCacheFiles


@cache
def sources_of(module: str) -> frozenset[str]:
    """A loaded module, and the modules of its package that it imports, directly or not."""
    package = module.partition(".")[0]
    found, pending = set(), [module]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += [other for other in _imported(_source(name)) if other.startswith(f"{package}.")]
    return frozenset(found)


@cache
def _digest(module: str) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(sources_of(module)):
        digest.update(hashlib.sha256(_source(name).encode()).digest())
    return digest.digest()


@cache
def _source(module: str) -> str:
    loader: Any = sys.modules[module].__loader__
    return loader.get_source(module) or ""


def _imported(source: str) -> Iterator[str]:
    """The loaded modules that a source text names in its import statements."""
    for base, names in _IMPORT.findall(source):
        for name in (base, *(f"{base}.{name}" for name in re.findall(r"\w+", names))):
            if name in sys.modules:
                yield name


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
