"""How a command that only reads starts quickly: its libraries import less, and less garbage is looked for.

pyarrow imports pandas when it makes its first value, which takes longer than all that such a command does. Where it has
not found pandas then, it looks again as soon as something asks it for a data frame.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

GARBAGE_AFTER: Final = 200_000
"""New objects after which garbage is looked for. Imports make many objects and no garbage."""


def start_quickly() -> None:
    """Import pyarrow without pandas, and collect garbage less often. Does nothing to a process that has pyarrow."""
    if "pyarrow" in sys.modules:
        return
    gc.set_threshold(GARBAGE_AFTER)
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        import pyarrow.dataset  # noqa: F401  it makes values as it is imported
    finally:
        sys.meta_path.remove(hidden)


class _Hidden(MetaPathFinder):
    """A finder that says of pandas that it is not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=fullname)
        return None
