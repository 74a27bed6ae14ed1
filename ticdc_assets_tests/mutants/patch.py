"""Puts a mutant's code into a function that is loaded, so that a process need not import everything anew."""

from __future__ import annotations

import functools
import gc
import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from ticdc_assets_tests.mutants.mutations import Mutant

ROOT = Path(__file__).parents[2]
_FUNCTION = 0x2  # CO_NEWLOCALS, which the body of a class has not
_Place = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The loaded functions by their places, and what functions of the package keep."""

    functions: dict[_Place, list[FunctionType]]
    caches: list[Any]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Loaded:
        """What is loaded once the modules of these paths are imported."""
        for path in sorted(set(paths)):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        functions: dict[_Place, list[FunctionType]] = {}
        caches = []
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                functions.setdefault(_place(found.__code__), []).append(found)
            elif isinstance(found, functools._lru_cache_wrapper) and str(found.__module__).startswith("ticdc_assets."):
                caches.append(found)
        return cls(functions, caches)

    def patch(self, mutant: Mutant) -> None:
        """Change the function of a mutant, and forget what functions have kept. A function inside another one is
        changed with that one."""
        codes = _functions(compile(mutant.source(), str(mutant.path), "exec", dont_inherit=True))
        [changed] = [code for code in codes if code.co_firstlineno <= mutant.line <= _last_line(code)]
        for found in self.functions[_place(changed)]:
            found.__code__ = changed
        for kept in self.caches:
            kept.cache_clear()


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The functions of a module and of its classes, without those inside functions."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and inner.co_flags & _FUNCTION:
            yield inner
        elif isinstance(inner, CodeType):
            yield from _functions(inner)


def _last_line(code: CodeType) -> int:
    inside = [_last_line(inner) for inner in code.co_consts if isinstance(inner, CodeType)]
    return max([line for _, _, line in code.co_lines() if line is not None] + inside)


def _place(code: CodeType) -> _Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno
