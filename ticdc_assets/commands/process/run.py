"""`ticdc-assets run`: processes everything pending, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from ticdc_assets import spark
from ticdc_assets.assets.known_tables import log_folder
from ticdc_assets.commands.output.each import code_of, sentence_of
from ticdc_assets.commands.output.progress import named
from ticdc_assets.commands.output.terminal import Terminal, moment, noise_kept_in
from ticdc_assets.commands.process.pending import ChangefeedResult, scan_result
from ticdc_assets.pipeline.lake import Lake, read_only_config
from ticdc_assets.plurals import counted
from ticdc_assets.spark.requirements import require_java

if TYPE_CHECKING:
    from pathlib import Path

    from dagster import DagsterInstance

    from ticdc_assets.config import Changefeed, Config


def run(config: Config, chosen: Sequence[Changefeed], until: int | None, environ: Mapping[str, str]) -> int:
    """Process everything pending of the chosen changefeeds and print one line for each.

    Args:
        until: the TSO at which to stop; None for no limit.

    Returns:
        The exit code: 1 if anything failed or is held.
    """
    terminal = Terminal()
    log = log_folder(config) / "run.log"
    results = run_all(terminal, config, chosen, until, environ, log, lambda ran: _print(terminal, ran))
    return max((ran.exit_code for ran in results), default=0)


def _print(terminal: Terminal, ran: ChangefeedResult) -> None:
    terminal.result(summary(ran))
    for sentence in ran.warnings:
        terminal.note(f"warning: {sentence}")
    for sentence in ran.faults:
        terminal.note(sentence)


def run_all(
    terminal: Terminal,
    config: Config,
    chosen: Sequence[Changefeed],
    until: int | None,
    environ: Mapping[str, str],
    log: Path,
    on_result: Callable[[ChangefeedResult], None] = lambda _: None,
) -> list[ChangefeedResult]:
    """Run one changefeed after another, with one Spark session; those that take the DDL of another one run last. An
    error in one changefeed does not stop the others.

    Args:
        until: the TSO at which to stop; None for no limit.
        log: the file for the output of Spark and Dagster.
        on_result: called with the result of each changefeed.
    """
    results = []
    with noise_kept_in(log), ExitStack() as opened:
        opened.callback(spark.stop)
        runs = _Runs(terminal, config, until, environ, opened)
        for changefeed in sorted(chosen, key=lambda changefeed: changefeed.schemas.ddl_from is not None):
            ran = runs.run(changefeed)
            on_result(ran)
            results.append(ran)
    return results


class _Runs:
    """Runs in one process. They share one Dagster instance, opened by the first run that needs it."""

    def __init__(
        self, terminal: Terminal, config: Config, until: int | None, environ: Mapping[str, str], opened: ExitStack
    ) -> None:
        self._terminal = terminal
        self._config = config
        self._until = until
        self._environ = environ
        self._opened = opened
        self._instance: DagsterInstance | None = None

    def run(self, changefeed: Changefeed) -> ChangefeedResult:
        """Run one changefeed. An error is part of the result."""
        try:
            with self._terminal.working(f"{changefeed.name}: reading the source"):
                return self._run(changefeed)
        except Exception as error:  # noqa: BLE001  an error in one changefeed must not stop the others
            sentence = f"{changefeed.name}: {sentence_of(error)}"
            return ChangefeedResult(changefeed.name, None, True, (sentence,), error_code=code_of(error))

    def _run(self, changefeed: Changefeed) -> ChangefeedResult:
        if Lake(read_only_config(self._config), changefeed).control.newest() is None:
            require_java()  # before the first scan, which may take long and be useless without Java
        ran, needed, tables = scan_result(self._config, changefeed, self._until)
        if not needed:
            return ran
        require_java()
        spark.start_ahead(self._config)  # Java starts while Dagster is imported
        from ticdc_assets.commands.process import through_dagster

        self._instance = self._instance or self._opened.enter_context(through_dagster.instance_of(self._environ))
        after = through_dagster.run_changefeed(
            self._config,
            changefeed,
            tables,
            self._until,
            named(changefeed.name, self._terminal.on_progress),
            self._instance,
        )
        return replace(after, warnings=(*ran.warnings, *after.warnings))


def summary(ran: ChangefeedResult) -> str:
    """One line for a changefeed."""
    if ran.error_code:
        return f"{ran.changefeed}: failed."
    if ran.record is None and ran.was_needed:
        return f"{ran.changefeed}: nothing could be published."
    if ran.record is None:
        return f"{ran.changefeed}: nothing is pending, and nothing is recorded yet."
    state = "complete" if ran.record.complete else "not complete"
    lacking = ", but for records in quarantine" if any(table.quarantined for table in ran.record.tables) else ""
    reached = f"{state} up to {moment(ran.record.tso)}{lacking}"
    if not ran.was_needed:
        return f"{ran.changefeed}: nothing is pending; {reached}."
    changes = sum(sum(counts.values()) for counts in ran.changes.values())
    return f"{ran.changefeed}: {counted(changes, 'change')} of {counted(len(ran.record.tables), 'table')}, {reached}."
