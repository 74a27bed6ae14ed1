"""`ticdc-assets run`: everything pending, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from ticdc_assets import spark
from ticdc_assets.assets.known_tables import state_folder
from ticdc_assets.commands.moments import moment
from ticdc_assets.commands.pending import Ran, looked_at
from ticdc_assets.commands.terminal import Terminal, noise_kept_in

if TYPE_CHECKING:
    from pathlib import Path

    from ticdc_assets.config import Changefeed, Config


def run(config: Config, chosen: Sequence[Changefeed], until: int | None, environ: Mapping[str, str]) -> int:
    """The exit code: 1 where anything failed or is held."""
    terminal = Terminal()
    log = state_folder(config) / "run.log"
    results = run_all(terminal, config, chosen, until, environ, log)
    for ran in results:
        terminal.tell(summary(ran))
        for sentence in ran.warnings:
            terminal.note(f"warning: {sentence}")
        for sentence in ran.faults:
            terminal.note(sentence)
    return 1 if any(ran.faults for ran in results) else 0


def run_all(
    terminal: Terminal,
    config: Config,
    chosen: Sequence[Changefeed],
    until: int | None,
    environ: Mapping[str, str],
    log: Path,
) -> list[Ran]:
    """Each changefeed after the other, with one Spark session; what Spark and Dagster print goes to `log`.

    Those that take another's statements come last.
    """
    results = []
    with noise_kept_in(log), ExitStack() as opened:
        opened.callback(spark.stop)
        instance = None
        for changefeed in sorted(chosen, key=lambda changefeed: changefeed.ddl_from is not None):
            with terminal.working(f"{changefeed.name}: looking at the source"):
                ran, needed = looked_at(config, changefeed, until)
                if needed:
                    from ticdc_assets.commands import through_dagster

                    instance = instance or opened.enter_context(through_dagster.instance_of(environ))
                    after = through_dagster.run_changefeed(config, changefeed, until, terminal.say, instance)
                    ran = replace(after, warnings=(*ran.warnings, *after.warnings))
                results.append(ran)
    return results


def summary(ran: Ran) -> str:
    """One line on a changefeed."""
    if ran.record is None and ran.was_needed:
        return f"{ran.changefeed}: nothing could be published."
    if ran.record is None:
        return f"{ran.changefeed}: nothing is pending; the source has no checkpoint yet."
    state = "complete" if ran.record.complete else "not complete"
    reached = f"{state} up to {moment(ran.record.tso)}"
    if not ran.was_needed:
        return f"{ran.changefeed}: nothing is pending; {reached}."
    changes = sum(sum(counts.values()) for counts in ran.changes.values())
    return f"{ran.changefeed}: {changes:,} changes of {len(ran.record.tables)} tables, {reached}."
