"""`ticdc-assets replay --quarantine`: decodes records in quarantine again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ticdc_assets.commands.jvm import jvm_of, spark_stopped_after
from ticdc_assets.commands.output.each import each
from ticdc_assets.commands.output.terminal import Terminal
from ticdc_assets.errors import ConfigError
from ticdc_assets.notes import Note
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror.pending import pending_work
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.recorded.views import views_are_behind
from ticdc_assets.pipeline.replay.run import ReplayOutcome, ReplayReport, ReplayRequest, Resolution, position_of
from ticdc_assets.pipeline.replay.run import replay as take_in
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.plurals import counted

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config


def replay(
    config: Config, chosen: Sequence[Changefeed], only: Sequence[str], corrected: Path | None, discarded: Sequence[str]
) -> int:
    """Print one line per record. Returns the exit code: 1 if a record is still bad or a mirror could not be updated.

    `only` and `discarded` name records as PATH:LINE; `corrected` is the file with the bytes for the record in `only`.
    """
    if (only or discarded) and len(chosen) > 1:
        listed = ", ".join(changefeed.name for changefeed in chosen)
        advice = "Name one with --changefeed: a position belongs to one changefeed."
        raise ConfigError(str(config.path), "one changefeed", listed, advice)
    request = _request(only, corrected, discarded)
    terminal = Terminal()
    with spark_stopped_after(config):
        return each(chosen, lambda changefeed: _replayed(terminal, config, changefeed, request), terminal.note)


def _replayed(terminal: Terminal, config: Config, changefeed: Changefeed, request: ReplayRequest) -> bool:
    """Whether every record could be decoded and all mirrors were updated."""
    lake = Lake(config, changefeed)
    with terminal.working(f"{changefeed.name}: decoding the quarantine again"):
        report = take_in(lake, request)
    _print(terminal, changefeed.name, report)
    faults = mirrors_followed(terminal, config, lake, report.run_id)
    for fault in faults:
        terminal.note(fault)
    return report.is_clean and not faults


def _request(only: Sequence[str], corrected: Path | None, discarded: Sequence[str]) -> ReplayRequest:
    positions = [position_of(text) for text in only]
    if corrected is not None and len(positions) != 1:
        advice = "Write --record PATH:LINE --with FILE."
        raise ConfigError("--with", "one record to put these bytes in place of", f"{len(positions)}", advice)
    # Records to discard and none to decode: then no other record is decoded.
    wanted = frozenset(positions) if positions or discarded else None
    return ReplayRequest(
        only=wanted,
        corrected={} if corrected is None else {positions[0]: _bytes(corrected)},
        discarded=frozenset(position_of(text) for text in discarded),
    )


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise ConfigError(f"--with {file}", "a file with the corrected record", found, "Check the path.") from None


# -- mirrors -----------------------------------------------------------------------------------------------------------


def mirrors_followed(terminal: Terminal, config: Config, lake: Lake, run_id: str) -> list[str]:
    """Merge the added changes into the mirrors and write a record. Starts Spark only if a mirror changes.

    Returns:
        One sentence per fault.
    """
    record = lake.control.newest()
    errors: dict[str, Note] = {}
    if record is None:
        return []
    history = lake.history()
    is_behind = pending_work(lake, Plan.of(lake, record, history), errors=errors) or views_are_behind(lake, history)
    if record.complete and not is_behind and not errors:
        return []

    with terminal.working(f"{lake.changefeed.name}: updating the mirrors"):
        report = run_mirrors(lake, run_id, jvm_of(config))
    sentences = report.record.texts(report.errors) if report is not None else {}
    return [f"{lake.changefeed.name}: {sentence}" for sentence in sentences.values()]


# -- in lines ----------------------------------------------------------------------------------------------------------


def _print(terminal: Terminal, changefeed: str, report: ReplayReport) -> None:
    for outcome in report.outcomes:
        terminal.result(line_of(outcome))
    if not report.outcomes:
        terminal.result(f"{changefeed}: nothing is in quarantine.")
    elif any(outcome.resolution is Resolution.REPLAYED for outcome in report.outcomes):
        added = sum(report.added.values())
        terminal.result(f"{changefeed}: the changelogs gained {counted(added, 'change')}.")


def line_of(outcome: ReplayOutcome) -> str:
    """One line for a record: its position and its result."""
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.record.path}:{outcome.record.line}: {outcome.resolution}{reason}"
