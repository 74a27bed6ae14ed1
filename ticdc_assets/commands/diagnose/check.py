"""`ticdc-assets check`: all asset checks of changefeeds without a run and without Spark, for CI and for alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from ticdc_assets.assets.checks.definitions import HAVE_ASSETS, NO_LATE_ROWS
from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.known_tables import log_folder
from ticdc_assets.commands.output.each import EXIT_FAILED, code_of, sentence_of
from ticdc_assets.commands.output.terminal import Terminal, noise_kept_in
from ticdc_assets.commands.process.through_dagster import (
    QUIET_LOGGERS,
    instance_of,
    raise_if_interrupted,
    step_failures,
)
from ticdc_assets.pipeline.lake import Lake, read_only_config
from ticdc_assets.plurals import counted

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config

_NOT_OF_A_LAKE: Final = frozenset({NO_LATE_ROWS, HAVE_ASSETS})
"""Checks of one run or of loaded definitions. This command has neither, so it cannot evaluate them."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One evaluated check. `severity` is `ERROR` or `WARN`: how severe it is where the check has failed."""

    changefeed: str
    asset: str
    check: str
    passed: bool
    severity: str
    sentence: str

    @property
    def fails(self) -> bool:
        return not self.passed and self.severity == "ERROR"

    def as_json(self) -> dict[str, Any]:
        """One element of the output of `check --json`."""
        return {
            "changefeed": self.changefeed,
            "asset": self.asset,
            "check": self.check,
            "passed": self.passed,
            "severity": self.severity,
            "description": self.sentence,
        }


@dataclass(frozen=True, slots=True)
class Checked:
    """The results of one changefeed. `errors` are sentences about checks that could not be evaluated."""

    changefeed: str
    results: tuple[CheckResult, ...] = ()
    errors: tuple[str, ...] = ()
    error_code: int = 0

    @property
    def exit_code(self) -> int:
        """The exit code of this changefeed alone; warnings do not fail it."""
        failed = bool(self.errors) or any(result.fails for result in self.results)
        return self.error_code or (EXIT_FAILED if failed else 0)


def check(config: Config, chosen: Sequence[Changefeed], as_json: bool, environ: Mapping[str, str]) -> int:
    """Evaluate every check of the changefeeds, print those that did not pass, and return the exit code.

    The code is 1 where a check of severity ERROR failed or could not be evaluated. A warning does not change it.
    """
    terminal = Terminal()
    on_checked: Callable[[Checked], None] = (lambda _: None) if as_json else (lambda checked: _print(terminal, checked))
    found = check_all(terminal, config, chosen, environ, on_checked)
    if as_json:
        terminal.json([result.as_json() for checked in found for result in checked.results])
        for sentence in (sentence for checked in found for sentence in checked.errors):
            terminal.note(sentence)
    return max((checked.exit_code for checked in found), default=0)


def check_all(
    terminal: Terminal,
    config: Config,
    chosen: Sequence[Changefeed],
    environ: Mapping[str, str],
    on_checked: Callable[[Checked], None],
) -> list[Checked]:
    """Evaluate the checks of one changefeed after another. An error in one does not stop the others."""
    found = []
    with noise_kept_in(log_folder(config) / "check.log"), instance_of(environ) as instance:
        for changefeed in chosen:
            with terminal.working(f"{changefeed.name}: evaluating its checks"):
                checked = _checked_or_failed(config, changefeed, instance)
            on_checked(checked)
            found.append(checked)
    return found


def _checked_or_failed(config: Config, changefeed: Changefeed, instance: dg.DagsterInstance) -> Checked:
    try:
        return _checked(config, changefeed, instance)
    except Exception as error:  # noqa: BLE001  an error in one changefeed must not stop the others
        sentence = f"{changefeed.name}: {sentence_of(error)}"
        return Checked(changefeed.name, errors=(sentence,), error_code=code_of(error))


def _checked(config: Config, changefeed: Changefeed, instance: dg.DagsterInstance) -> Checked:
    lake = Lake(read_only_config(config), changefeed)
    if lake.control.newest() is None:
        advice = "Run `ticdc-assets run` first."
        sentence = f"{changefeed.name}: expected a recorded run to check, found none. {advice}"
        return Checked(changefeed.name, errors=(sentence,))
    result = _job(config, changefeed).execute_in_process(
        {"loggers": QUIET_LOGGERS}, instance=instance, raise_on_error=False
    )
    raise_if_interrupted(result)
    results = sorted(map(_result_in(changefeed), result.get_asset_check_evaluations()), key=_order)
    return Checked(changefeed.name, tuple(results), tuple(step_failures(result)))


def _job(config: Config, changefeed: Changefeed) -> dg.JobDefinition:
    """A job with all checks of a changefeed, except `_NOT_OF_A_LAKE`."""
    definitions = definitions_of(config, [changefeed.name])
    keys = [key for checks in definitions.asset_checks or () for key in checks.check_keys]
    selection = dg.AssetSelection.checks(*(key for key in keys if key.name not in _NOT_OF_A_LAKE))
    name = f"{FeedNames(changefeed.name, str(changefeed.sink.protocol)).job}_checks"
    job = dg.define_asset_job(name, selection=selection, executor_def=dg.in_process_executor)
    return dg.Definitions.merge(definitions, dg.Definitions(jobs=[job])).resolve_job_def(name)


def _result_in(changefeed: Changefeed) -> Callable[[dg.AssetCheckEvaluation], CheckResult]:
    def result(evaluation: dg.AssetCheckEvaluation) -> CheckResult:
        return CheckResult(
            changefeed.name,
            evaluation.asset_key.to_user_string(),
            evaluation.check_name,
            evaluation.passed,
            evaluation.severity.value,
            evaluation.description or "",
        )

    return result


def _order(result: CheckResult) -> tuple[bool, bool, str, str]:
    """Failed checks first, then warnings."""
    return (not result.fails, result.passed, result.asset, result.check)


# -- in sentences ------------------------------------------------------------------------------------------------------


def _print(terminal: Terminal, checked: Checked) -> None:
    for result in checked.results:
        if not result.passed:
            terminal.result(f"{result.severity} {result.asset} {result.check}: {result.sentence}")
    for sentence in checked.errors:
        terminal.note(sentence)
    terminal.result(_summary(checked))


def _summary(checked: Checked) -> str:
    counts = Counter("failed" if r.fails else "passed" if r.passed else "warning" for r in checked.results)
    parts = [f"{counts['passed']} passed", counted(counts["warning"], "warning"), f"{counts['failed']} failed"]
    return f"{checked.changefeed}: {counted(len(checked.results), 'check')}: {', '.join(parts)}."
