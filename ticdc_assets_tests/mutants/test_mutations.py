"""Mutants are whole modules that differ in one expression, and words of errors and types are left as they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ticdc_assets_tests.mutants.__main__ import modules
from ticdc_assets_tests.mutants.mutations import mutants_of

SOURCE = '''\
"""A limit of 7."""
LIMIT: int = 7 + 1
Parsed = tuple[Shape, 3] | None


@known(3)
def é(data: Shape[5], flag: bool = True) -> int:
    if not flag and len(data) <= 4:
        raise ValueError(f"at most {LIMIT + 1}")
    return LIMIT if data else None
'''


def test_each_kind_of_expression_is_changed_and_nothing_else(tmp_path: Path):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)

    found = [(mutant.line, mutant.before, mutant.after) for mutant in mutants_of(path)]

    assert found == [
        (2, "7 + 1", "(7 - 1)"),
        (2, "7", "(8)"),
        (2, "1", "(2)"),
        (7, "True", "(False)"),
        (8, "not flag and len(data) <= 4", "(not flag or len(data) <= 4)"),
        (8, "not flag", "(flag)"),
        (8, "len(data) <= 4", "(len(data) < 4)"),
        (8, "4", "(5)"),
        (10, "LIMIT if data else None", "(None)"),
        (10, "LIMIT if data else None", "(None if data else LIMIT)"),
    ]


@pytest.mark.long
def test_a_mutant_of_any_module_is_a_module_that_is_not_the_same():
    for path in modules():
        for mutant in mutants_of(path)[::20]:
            changed = mutant.source()
            assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(path.read_text())), mutant


def test_only_what_a_function_computes_needs_no_process_of_its_own(tmp_path: Path):
    path = tmp_path / "module.py"
    path.write_text(
        "A = 1\n\n@compiled\ndef f():\n    return 2\n\ndef g(b=3):\n    class C:\n        d = 4\n    return 5\n"
    )

    numbers = {mutant.before: mutant.is_inside for mutant in mutants_of(path) if mutant.after != "(None)"}

    assert numbers == {"1": False, "2": False, "3": False, "4": True, "5": True}
    assert {m.before for m in mutants_of(path, interpreted=True) if m.is_inside} == {"2", "4", "5"}
