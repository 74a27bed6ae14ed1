"""A pytest plugin that tells which tests run each line of the package, and how much CPU time each test takes.

It uses `sys.monitoring` of Python 3.12, where a line that was seen in a test costs nothing more in that test.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

PACKAGE = Path(__file__).parents[2] / "ticdc_assets"
WRITTEN_TO = "TICDC_ASSETS_LINE_TESTS"
_TOOL = 4  # of those that Python leaves free
_IMPORTING = "<module>"
_INSIDE = f"{PACKAGE}{os.sep}"

_NO_MORE = sys.monitoring.DISABLE

_lines: set[tuple[str, int]] = set()
_found: dict[str, dict[str, list[int]]] = {}
_seconds: dict[str, float] = {}


def _saw(code: CodeType, line: int) -> Any:
    if code.co_filename.startswith(_INSIDE) and code.co_name != _IMPORTING:
        _lines.add((code.co_filename, line))
    return _NO_MORE


def pytest_configure() -> None:
    sys.monitoring.use_tool_id(_TOOL, "line tests")
    sys.monitoring.register_callback(_TOOL, sys.monitoring.events.LINE, _saw)
    sys.monitoring.set_events(_TOOL, sys.monitoring.events.LINE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _lines.clear()
    sys.monitoring.restart_events()
    began = sum(os.times()[:4])
    result = yield
    _seconds[item.nodeid] = sum(os.times()[:4]) - began
    modules: dict[str, list[int]] = {}
    for name, line in sorted(_lines):
        modules.setdefault(str(Path(name).relative_to(PACKAGE)), []).append(line)
    _found[item.nodeid] = modules
    return result


def pytest_sessionfinish() -> None:
    found = {name: {"seconds": round(_seconds.get(name, 0), 3), "lines": lines} for name, lines in _found.items()}
    Path(os.environ[WRITTEN_TO]).write_text(json.dumps(found))


def pytest_unconfigure() -> None:
    sys.monitoring.set_events(_TOOL, sys.monitoring.events.NO_EVENTS)
    sys.monitoring.free_tool_id(_TOOL)
