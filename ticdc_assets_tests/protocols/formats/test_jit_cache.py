"""Cached machine code is compiled again when any of its source files changes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import ticdc_assets
from ticdc_assets.protocols.formats.jit import sources_of

CALLER = """
from ticdc_assets.protocols.formats.jit import compiled
from sums.terms import term

@compiled
def total(count: int) -> int:
    found = 0
    for number in range(count):
        found += term(number)
    return found
"""
TERM = """
from ticdc_assets.protocols.formats.jit import inlined
from sums import factors

FACTOR = factors.FACTOR

@inlined
def term(number: int) -> int:
    return number * FACTOR
"""


def write(package: Path, **modules: str) -> None:
    package.mkdir(exist_ok=True)
    for name, text in {"__init__": "", **modules}.items():
        (package / f"{name}.py").write_text(text)


def called(folder: Path) -> tuple[int, bool]:
    """What the compiled function returns in a new process, and whether its machine code was kept."""
    code = "from sums.caller import total; print(total(4), sum(total.stats.cache_hits.values()))"
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "code"), "PYTHONPATH": f"{folder}:{Path.cwd()}"}
    command = [sys.executable, "-B", "-c", code]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=True)
    value, hits = run.stdout.split()
    return int(value), int(hits) > 0


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_change_of_a_called_function_or_of_its_constants_compiles_the_caller_again(tmp_path: Path):
    write(tmp_path / "sums", caller=CALLER, terms=TERM, factors="FACTOR = 10")

    assert called(tmp_path) == (60, False)
    assert called(tmp_path) == (60, True)

    write(tmp_path / "sums", terms=TERM.replace("number * FACTOR", "number + FACTOR"))
    assert called(tmp_path) == (46, False)

    write(tmp_path / "sums", factors="FACTOR = 20")
    assert called(tmp_path) == (86, False)


def test_the_scanner_of_json_is_made_of_its_own_file_and_of_those_that_it_imports():
    import ticdc_assets.protocols.formats.json.scanner  # noqa: F401

    parts = {"scanner", "strings", "numbers", "template"}
    found = {name.rpartition(".")[2] for name in sources_of("ticdc_assets.protocols.formats.json.scanner")}

    assert found == {*parts, "jit", "simd", "string_arrays", "tso"}


def test_compiled_code_calls_only_functions_of_modules_that_the_digest_includes():
    for path in Path(ticdc_assets.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        functions = [f for f in tree.body if isinstance(f, ast.FunctionDef)]
        calls = [node for f in functions if is_compiled(f) for node in ast.walk(f) if isinstance(node, ast.Call)]
        called = {call.func.id for call in calls if isinstance(call.func, ast.Name)}

        assert called <= {f.name for f in functions} | imported_from_the_package(tree) | COMPILED_BUILTINS


COMPILED_BUILTINS = {"int", "len", "max", "min", "range"}


def is_compiled(function: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id in ("compiled", "inlined") for d in function.decorator_list)


def imported_from_the_package(tree: ast.Module) -> set[str]:
    """The names of `from ticdc_assets... import ...` at the top of a module: the imports that the digest follows."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {name.name for node in imports if (node.module or "").startswith("ticdc_assets.") for name in node.names}
