"""Where the workloads made with TiCDC's own encoders lie, and the truth that goes with each.

TICDC_ASSETS_FIXTURES names the full set; without it, the project's own small copies in `corpus/` stand in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pytest

CORPUS = Path(__file__).parent / "corpus"


def _fixtures_root() -> Path | None:
    named = os.environ.get("TICDC_ASSETS_FIXTURES")
    return Path(named).resolve() if named and Path(named).is_dir() else None


FIXTURES: Path | None = _fixtures_root()
_NOT_HERE = pytest.mark.skipif(FIXTURES is None, reason="the full fixture set is not on this machine")
_Test = TypeVar("_Test", bound=Callable[..., Any])


def needs_fixtures(test: _Test) -> _Test:
    """Marks a test that needs the full set; `-m fixtures` selects these."""
    return pytest.mark.fixtures(_NOT_HERE(test))


def of_full_set(cases: Iterable[Any], arguments: int = 1) -> list[Any]:
    """Cases of a test that only the full set has, marked as by `needs_fixtures`; a case of several `arguments` is a
    tuple. Where the set is not at hand a test that is skipped stands for them; where it is, none is an error."""
    params = [pytest.param(*(case if arguments > 1 else (case,)), marks=pytest.mark.fixtures) for case in cases]
    if params or FIXTURES is not None:
        return params
    return [pytest.param(*[None] * arguments, id="of the full set", marks=(_NOT_HERE, pytest.mark.fixtures))]


@dataclass(frozen=True)
class Workload:
    """One variant and seed: its configuration, its events, and the expected rows."""

    root: Path

    @property
    def name(self) -> str:
        return f"{self.root.parent.name}/{self.root.name}"

    @cached_property
    def variant(self) -> dict[str, Any]:
        return json.loads((self.root / "variant.json").read_text())

    @cached_property
    def log(self) -> Path:
        return (self.root / self.variant["log"]).resolve()

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        return list(read_jsonl(self.log / "events.jsonl"))

    @cached_property
    def truth(self) -> list[dict[str, Any]]:
        return [entry for entry in read_jsonl(self.log / "truth.jsonl") if not entry.get("end")]

    @property
    def time_zone(self) -> str:
        return self.variant.get("time_zone", "UTC")


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def workloads(prefix: str = "", seed: str = "seed*") -> list[Workload]:
    """Every workload whose variant starts with `prefix`: the full set where it exists, else the project's copies."""
    root = FIXTURES or CORPUS / "fixtures"
    return [Workload(path) for path in sorted(root.glob(f"{prefix}*/{seed}")) if (path / "variant.json").is_file()]
