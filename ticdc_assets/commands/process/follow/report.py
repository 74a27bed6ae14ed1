"""The output of `run --follow`: a line for each run, and each fault as a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ticdc_assets.commands.output.progress import named
from ticdc_assets.commands.process.follow.metrics import added_rows
from ticdc_assets.commands.process.run import summary
from ticdc_assets.pipeline.mirror.pending import blocked_tables
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from ticdc_assets.commands.output.terminal import Terminal
    from ticdc_assets.commands.process.follow.changefeed import FollowedRun
    from ticdc_assets.tables.maintenance.compaction import FileCounts


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
        if self._as_json:
            self._json_line(as_object(run, lag_ms, files))
        else:
            lag = "" if lag_ms is None else f" Lag {lag_ms / 1000:.1f} s."
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
