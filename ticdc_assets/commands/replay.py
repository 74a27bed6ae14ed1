"""`ticdc-assets replay --quarantine`: records that could not be decoded, once more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ticdc_assets import spark
from ticdc_assets.amounts import counted
from ticdc_assets.assets.known_tables import state_folder
from ticdc_assets.commands.each import each
from ticdc_assets.commands.jvm import jvm_of
from ticdc_assets.commands.terminal import Terminal, noise_kept_in
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror_run import run_mirrors
from ticdc_assets.pipeline.mirror_work import pending_work
from ticdc_assets.pipeline.replay import Fate, Outcome, Position, ReplayReport, Wish
from ticdc_assets.pipeline.replay import replay as take_in

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config


def replay(
    config: Config, chosen: Sequence[Changefeed], only: Sequence[str], mended: Path | None, discarded: Sequence[str]
) -> int:
    """One line a record; the exit code is 1 where any is still bad, or a mirror could not follow.

    `only` and `discarded` name records as PATH:LINE; `mended` is the file with the bytes of the one in `only`.
    """
    if (only or discarded) and len(chosen) > 1:
        listed = ", ".join(changefeed.name for changefeed in chosen)
        todo = "Name one with --changefeed: positions are of one changefeed."
        raise ConfigError(str(config.path), "one changefeed", listed, todo)
    wish = _wish(only, mended, discarded)
    terminal = Terminal()
    with noise_kept_in(state_folder(config) / "run.log"):
        try:
            return each(chosen, lambda changefeed: _replayed(terminal, config, changefeed, wish), terminal.note)
        finally:
            spark.stop()


def _replayed(terminal: Terminal, config: Config, changefeed: Changefeed, wish: Wish) -> bool:
    """Whether no record is bad any more and all mirrors have followed."""
    lake = Lake(config, changefeed)
    with terminal.working(f"{changefeed.name}: decoding the quarantine again"):
        report = take_in(lake, wish)
    _tell(terminal, changefeed.name, report)
    faults = mirrors_followed(terminal, config, lake, report.run_id)
    for fault in faults:
        terminal.note(fault)
    return report.is_clean and not faults


def _wish(only: Sequence[str], mended: Path | None, discarded: Sequence[str]) -> Wish:
    positions = [_position(text) for text in only]
    if mended is not None and len(positions) != 1:
        todo = "Write --record PATH:LINE --with FILE."
        raise ConfigError("--with", "one record to put these bytes in place of", f"{len(positions)}", todo)
    # A record to give up and none to take in: then nothing else is touched.
    wanted = frozenset(positions) if positions or discarded else None
    return Wish(
        only=wanted,
        mended={} if mended is None else {positions[0]: _bytes(mended)},
        discarded=frozenset(_position(text) for text in discarded),
    )


def _position(text: str) -> Position:
    path, colon, line = text.rpartition(":")
    if not (path and colon and line.isascii() and line.isdigit()):
        todo = "Copy it from the list that `ticdc-assets replay --quarantine` prints."
        raise ConfigError("the name of a record", "PATH:LINE", repr(text), todo)
    return (path, int(line))


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise ConfigError(f"--with {file}", "a file with the mended record", found, "Check the path.") from None


# -- mirrors -----------------------------------------------------------------------------------------------------------


def mirrors_followed(terminal: Terminal, config: Config, lake: Lake, run_id: str) -> list[str]:
    """Bring mirrors to what their changelogs gained, and record it; what went wrong. Starts Spark only for a mirror."""
    record = lake.control.newest()
    errors: dict[str, str] = {}
    if record is None or (
        record.complete and not (pending_work(lake, lake.history(), record, errors=errors) or errors)
    ):
        return []

    with terminal.working(f"{lake.changefeed.name}: bringing the mirrors along"):
        report = run_mirrors(lake, run_id, jvm_of(config))
    errors = report.errors if report is not None else {}
    return [f"{lake.changefeed.name}: {sentence}" for sentence in errors.values()]


# -- in lines ----------------------------------------------------------------------------------------------------------


def _tell(terminal: Terminal, changefeed: str, report: ReplayReport) -> None:
    for outcome in report.outcomes:
        terminal.tell(line_of(outcome))
    if not report.outcomes:
        terminal.tell(f"{changefeed}: nothing is in quarantine.")
    elif any(outcome.fate is Fate.REPLAYED for outcome in report.outcomes):
        added = sum(report.added.values())
        terminal.tell(f"{changefeed}: the changelogs gained {counted(added, 'change')}.")


def line_of(outcome: Outcome) -> str:
    """One record: where it was, what became of it."""
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.record.path}:{outcome.record.line}: {outcome.fate}{reason}"
