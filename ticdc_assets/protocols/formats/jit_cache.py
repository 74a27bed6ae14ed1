"""Keeps machine code on disk until a file changes from which it was compiled.

Numba compares only the file of the compiled function. The machine code also contains functions and constants of other
modules. Without their digest, a change of these modules would leave old code in use, which reads data wrongly. Here
the code of a function is valid for the contents of its module and of all modules of the same package that this one
imports, directly or not.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from numba.core.caching import CompileResultCacheImpl, FunctionCache

_IMPORT: Final = re.compile(r"^from ([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)


class _SourcesCacheFiles(CompileResultCacheImpl):  # type: ignore[misc]  # numba has no types
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = _digest(function.__module__)
        self.locator.get_source_stamp = lambda: stamp


class SourcesCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """The cache of one function, which numba reads and writes as it does its own.

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
