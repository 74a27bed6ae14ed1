"""Puts a mutant's code into a function that is loaded, so that a process need not import everything anew."""

from __future__ import annotations

import functools
import gc
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

from ticdc_assets_tests.mutants.mutations import Mutant

ROOT = Path(__file__).parents[2]
_FUNCTION = 0x2  # CO_NEWLOCALS, which the body of a class has not


def patch(mutant: Mutant) -> None:
    """Change the function of a mutant wherever it is loaded, and forget what functions of the package have kept. A
    function inside another one is changed with that one."""
    name = str(mutant.path)
    importlib.import_module(".".join(mutant.path.relative_to(ROOT).with_suffix("").parts))
    codes = _functions(compile(mutant.source(), name, "exec", dont_inherit=True))
    [changed] = [code for code in codes if code.co_firstlineno <= mutant.line <= _last_line(code)]
    is_found = False
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper):
            if str(each.__module__).startswith("ticdc_assets."):
                each.cache_clear()
        elif isinstance(each, FunctionType) and _place(each.__code__) == _place(changed):
            each.__code__, is_found = changed, True
    if not is_found:
        raise RuntimeError(f"{name}:{mutant.line} is in no function that is loaded.")


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


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno
