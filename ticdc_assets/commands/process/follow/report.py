"""What `run --follow` tells: a line for each run, each fault as a sentence, and metrics for Prometheus."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric

from ticdc_assets.commands.output.progress import named
from ticdc_assets.commands.process.run import summary
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.mirror.pending import blocked_tables
from ticdc_assets.plurals import duration
from ticdc_assets.tso import is_tso, physical_ms
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from ticdc_assets.commands.output.terminal import Terminal
    from ticdc_assets.commands.process.follow.changefeed import FollowedRun
    from ticdc_assets.pipeline.landing.land import LandingReport
    from ticdc_assets.tables.maintenance.compaction import FileCounts

LOOPBACK: Final = "127.0.0.1"

FAMILIES: Final = {
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


class Report:
    """Prints runs to stdout, as text or as one JSON object a line, and sentences to stderr.

    A sentence about a changefeed is printed when it is new, and again after it was absent.
    """

    def __init__(self, terminal: Terminal, as_json: bool) -> None:
        self._terminal = terminal
        self._as_json = as_json
        self._sentences: dict[str, tuple[str, ...]] = {}
        self._given_up: list[str] = []

    def working(self, changefeed: str) -> AbstractContextManager[None]:
        """Show on a terminal that the changefeed is being read."""
        if not self._terminal.err.is_terminal:
            return nullcontext()
        return self._terminal.working(f"{changefeed}: reading the source")

    def progress_of(self, changefeed: str) -> OnProgress:
        """A function that shows the steps of a run on a terminal. Other outputs would get lines from every run, so they
        get none."""
        if not self._terminal.err.is_terminal:
            return no_progress
        return named(changefeed, self._terminal.on_progress)

    def note(self, text: str) -> None:
        """Print a sentence about the whole process to stderr, each time it is given."""
        self._terminal.note(text)

    def ran(self, run: FollowedRun, lag_ms: int | None, files: FileCounts | None) -> None:
        """Print the faults of topics, and a run that published."""
        of_topics = self._topics(run)
        if run.ran is None:
            return
        if run.published and self._as_json:
            self._json_line(as_object(run, lag_ms, files))
        elif run.published:
            lag = "" if lag_ms is None else f" Lag {_lag_text(lag_ms / 1000)}."
            self._terminal.result(f"{summary(run.ran)} {sum(run.seconds.values()):.1f} s.{lag}")
        faults = (fault for fault in run.ran.faults if fault not in of_topics)
        self._note_new(run.changefeed, (*(f"warning: {text}" for text in run.ran.warnings), *faults))

    def _topics(self, run: FollowedRun) -> tuple[str, ...]:
        """Print the faults of topics that are new, and return all as sentences. A run that finds nothing new may still
        have some."""
        faults = run.landed.faults if run.landed is not None else {}
        sentences = {topic: f"{run.changefeed}: {fault}" for topic, fault in faults.items()}
        for sentence in self._note_new(f"{run.changefeed}, topics", sentences.values()):
            if self._as_json:
                [topic] = (topic for topic, text in sentences.items() if text == sentence)
                found = {"at": _now(), "changefeed": run.changefeed, "topic": topic, "error": str(faults[topic])}
                self._json_line(found)
        return tuple(sentences.values())

    def failed(self, changefeed: str, sentence: str, again_in_s: float | None) -> None:
        """Print a fault. `again_in_s` is None where the changefeed is given up."""
        if again_in_s is None:
            self._given_up.append(changefeed)
        if self._as_json:
            self._json_line({"at": _now(), "changefeed": changefeed, "error": sentence, "again_in_s": again_in_s})
        after = "It is given up." if again_in_s is None else f"It is tried again in {again_in_s:.0f} s."
        self._terminal.note(f"{changefeed}: {sentence} {after}")

    def _json_line(self, found: dict[str, Any]) -> None:
        self._terminal.json_line({**found, "given_up": self._given_up})

    def _note_new(self, about: str, sentences: Iterable[str]) -> list[str]:
        """Print the sentences that are new, and return them."""
        now, before = tuple(sentences), self._sentences.get(about, ())
        new = [sentence for sentence in now if sentence not in before]
        for sentence in new:
            self._terminal.note(sentence)
        self._sentences[about] = now
        return new


def as_object(run: FollowedRun, lag_ms: int | None, files: FileCounts | None) -> dict[str, Any]:
    """A run as JSON values. A TSO is text, since many readers round large numbers."""
    record = run.ran.record if run.ran is not None else None
    return {
        "at": _now(),
        "changefeed": run.changefeed,
        "run_id": run.run_id,
        "tso": str(record.tso) if record is not None else None,
        "complete": record is not None and record.complete,
        "rows": added_rows(run),
        "lag_ms": lag_ms,
        "seconds": dict(run.seconds),
        "tables": len(record.tables) if record is not None else 0,
        "held": [f"{table.schema}.{table.table}" for table in blocked_tables(record.tables if record else ())],
        "files": None if files is None else {"data": files.data, "delete": files.deletes},
    }


def _lag_text(seconds: float) -> str:
    """A lag of less than a minute has tenths, since such a lag is compared with the interval."""
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


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
    """A collector of prometheus_client: counts runs, and shows them to scrapes in another thread."""

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
            if run.ran is None or not run.published:
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

    def collect(self) -> Iterable[Metric]:
        """All families. Families without a sample are left out."""
        families = {name: Metric(f"ticdc_assets_{name}", text, kind) for name, (kind, text) in FAMILIES.items()}
        with self._lock:
            for changefeed, of in self._of.items():
                for name, labels, value in self._samples(changefeed, of):
                    family = families[name]
                    suffix = "_total" if family.type == "counter" else ""
                    family.add_sample(family.name + suffix, {"changefeed": changefeed, **labels}, value)
        resident = families["resident_bytes"]
        resident.add_sample(resident.name, {}, _resident_bytes())
        return [family for family in families.values() if family.samples]

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


def _resident_bytes() -> int:
    """0 where the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


@dataclass(frozen=True, slots=True)
class Address:
    """Where metrics are served. Port 0 is a free port."""

    host: str
    port: int


@contextmanager
def served(metrics: Metrics, address: Address | None) -> Iterator[str]:
    """Serve the metrics over HTTP while the body runs; the address as a URL, "" without one.

    Raises:
        ConfigError: the address cannot be bound.
    """
    if address is None:
        yield ""
        return
    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server, _ = start_http_server(address.port, address.host, registry)
    except OSError as error:
        found = error.strerror or type(error).__name__
        advice = "Give another port or host with --metrics."
        raise ConfigError(f"--metrics {address.host}:{address.port}", "a free address", found, advice) from None
    try:
        yield f"http://{address.host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
