"""The state of `run --follow`, as OpenMetrics 1.0 text."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ticdc_assets.pipeline.mirror.pending import blocked_tables
from ticdc_assets.tso import is_tso, physical_ms

if TYPE_CHECKING:
    from ticdc_assets.commands.process.follow.changefeed import FollowedRun
    from ticdc_assets.pipeline.landing.land import LandingReport
    from ticdc_assets.tables.maintenance.compaction import FileCounts

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_FAMILIES: Final = {
    "lag_seconds": ("gauge", "age of the TSO up to which all tables can be read together"),
    "source_lag_seconds": ("gauge", "age of the TSO up to which the source is complete"),
    "rows": ("counter", "changes added to changelogs"),
    "messages": ("counter", "messages landed from Kafka, by all runs of the changefeed"),
    "offsets_left": ("gauge", "offsets of Kafka that the last landing left for the next one"),
    "topics_with_faults": ("gauge", "topics of Kafka that the last landing could not read"),
    "runs": ("counter", "runs that published"),
    "faults": ("counter", "runs that failed"),
    "given_up": ("gauge", "1 where the changefeed is not followed any more"),
    "stage_seconds": ("counter", "seconds of runs by stage"),
    "last_stage_seconds": ("gauge", "seconds of the last run by stage"),
    "tables": ("gauge", "tables of the newest record"),
    "held_tables": ("gauge", "tables that are held"),
    "files": ("gauge", "data and delete files of all current snapshots, at the last upkeep"),
    "resident_bytes": ("gauge", "memory of this process, without Spark's processes"),
}


@dataclass(slots=True)
class _OfChangefeed:
    tso: int = 0
    checkpoint: int = 0
    rows: int = 0
    runs: int = 0
    faults: int = 0
    given_up: bool = False
    stage_seconds: dict[str, float] = field(default_factory=dict)
    last_stage_seconds: Mapping[str, float] = field(default_factory=dict)
    tables: int = 0
    held_tables: int = 0
    files: FileCounts | None = None
    landed: LandingReport | None = None


class Metrics:
    """Counts runs, and shows them to scrapes in another thread."""

    def __init__(self, changefeeds: Mapping[str, bool], now_s: Callable[[], float] = time.time) -> None:
        """`changefeeds` gives by name whether the changefeed's watermarks measure lag."""
        self._lock = threading.Lock()
        self._now_s = now_s
        self._measures_lag = dict(changefeeds)
        self._of = {name: _OfChangefeed() for name in changefeeds}

    def add(self, run: FollowedRun, files: FileCounts | None) -> None:
        """Count a scan of the source, or a run."""
        with self._lock:
            of = self._of[run.changefeed]
            of.checkpoint = run.checkpoint
            of.files = files
            of.landed = run.landed
            if run.ran is None:
                return
            of.runs += 1
            of.rows += added_rows(run)
            for stage, seconds in run.seconds.items():
                of.stage_seconds[stage] = of.stage_seconds.get(stage, 0.0) + seconds
            of.last_stage_seconds = run.seconds
            if run.ran.record is not None:
                of.tso = run.ran.record.tso
                of.tables = len(run.ran.record.tables)
                of.held_tables = len(blocked_tables(run.ran.record.tables))

    def add_fault(self, changefeed: str, given_up: bool = False) -> None:
        """Count a run that ended with an error. Threads may call it at the same time."""
        with self._lock:
            self._of[changefeed].faults += 1
            self._of[changefeed].given_up = given_up

    def lag_ms(self, changefeed: str) -> int | None:
        """The age of the newest record; None without one, and where the stream has no watermarks."""
        return self._age_ms(changefeed, self._of[changefeed].tso)

    def _age_ms(self, changefeed: str, tso: int) -> int | None:
        if not self._measures_lag[changefeed] or not is_tso(tso):
            return None
        return max(0, round(self._now_s() * 1000) - physical_ms(tso))

    def text(self) -> str:
        """All families. Families without a sample are left out."""
        with self._lock:
            samples: dict[str, list[str]] = {name: [] for name in _FAMILIES}
            for name, of in self._of.items():
                for family, labels, value in self._samples(name, of):
                    samples[family].append(_line(family, {"changefeed": name, **labels}, value))
        samples["resident_bytes"] = [_line("resident_bytes", {}, _resident_bytes())]
        lines = []
        for family, found in samples.items():
            if found:
                kind, text = _FAMILIES[family]
                lines += [f"# TYPE ticdc_assets_{family} {kind}", f"# HELP ticdc_assets_{family} {text}", *found]
        return "\n".join([*lines, "# EOF", ""])

    def _samples(self, name: str, of: _OfChangefeed) -> Iterator[tuple[str, dict[str, str], float]]:
        for family, tso in (("lag_seconds", of.tso), ("source_lag_seconds", of.checkpoint)):
            age_ms = self._age_ms(name, tso)
            if age_ms is not None:
                yield family, {}, age_ms / 1000
        yield "rows", {}, of.rows
        if of.landed is not None:
            yield "messages", {}, of.landed.total
            yield "offsets_left", {}, of.landed.left
            yield "topics_with_faults", {}, len(of.landed.faults)
        yield "runs", {}, of.runs
        yield "faults", {}, of.faults
        yield "given_up", {}, int(of.given_up)
        for stage, seconds in of.stage_seconds.items():
            yield "stage_seconds", {"stage": stage}, round(seconds, 3)
        for stage, seconds in of.last_stage_seconds.items():
            yield "last_stage_seconds", {"stage": stage}, seconds
        yield "tables", {}, of.tables
        yield "held_tables", {}, of.held_tables
        if of.files is not None:
            yield "files", {"kind": "data"}, of.files.data
            yield "files", {"kind": "delete"}, of.files.deletes


def added_rows(run: FollowedRun) -> int:
    """The changes that a run added."""
    return sum(sum(counts.values()) for counts in run.ran.changes.values()) if run.ran is not None else 0


def _line(family: str, labels: Mapping[str, str], value: float) -> str:
    suffix = "_total" if _FAMILIES[family][0] == "counter" else ""
    shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
    return f"ticdc_assets_{family}{suffix}{f'{{{shown}}}' if shown else ''} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _resident_bytes() -> int:
    """0 where the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
