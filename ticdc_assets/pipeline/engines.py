"""Packages of engines that a user installs for a form of rows."""

from __future__ import annotations

import importlib
from typing import Any

from ticdc_assets.errors import MachineError


def required(module: str) -> Any:
    """The module. Raises MachineError where its package is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        found = f"no module {module}"
        raise MachineError("this Python", f"the package {module}", found, f"Run: pip install {module}") from None
