"""Alerts for failed runs and failed checks of all changefeeds, sent by any callable: Slack, mail, a pager.

No alert is sent unless a code location has these sensors and somebody turns them on:

defs = dg.Definitions.merge(ticdc_assets.definitions.defs, dg.Definitions(sensors=alerts(send)))
"""

# Dagster evaluates the annotations of sensors, so this module must not postpone them.
from collections.abc import Callable, Iterator

import dagster as dg
from dagster import DagsterEventType, DagsterRunStatus

from ticdc_assets.assets.earlier_runs import broke
from ticdc_assets.assets.keys import TAG

FAILED_RUNS = "ticdc_assets_failed_runs"
FAILED_CHECKS = "ticdc_assets_failed_checks"

Send = Callable[[str], object]
"""Sends one alert, a plain text. An exception fails the tick, and Dagster repeats it."""


def alerts(send: Send, warnings: bool = False, enabled: bool = False) -> list[dg.SensorDefinition]:
    """Two sensors: one for runs that fail, one for checks that begin to fail or pass again.

    Args:
        warnings: whether checks of severity WARN count as failed.
        enabled: whether the sensors are on where nobody has turned them on or off.
    """
    status = dg.DefaultSensorStatus.RUNNING if enabled else dg.DefaultSensorStatus.STOPPED

    def run_failed(context: dg.RunStatusSensorContext) -> dg.SkipReason | None:
        run = context.dagster_run
        if TAG not in run.tags:
            return dg.SkipReason(f"Run {run.run_id} belongs to no changefeed.")
        record = context.instance.get_run_record_by_id(run.run_id)
        if record is None or not broke(context.instance, record):
            return dg.SkipReason(f"Run {run.run_id} failed because of its checks only.")
        send(_failure(context.instance, run))
        return None

    def checks_changed(context: dg.RunStatusSensorContext) -> dg.SkipReason | None:
        run = context.dagster_run
        changes = list(_changes(context.instance, run.run_id, warnings)) if TAG in run.tags else []
        if not changes:
            return dg.SkipReason(f"No check of run {run.run_id} has a new result.")
        send("\n".join([f"Run {run.run_id} of {run.job_name}:", *changes]))
        return None

    return [
        _sensor(FAILED_RUNS, DagsterRunStatus.FAILURE, run_failed, status, "Sends an alert for a failed run."),
        *(
            _sensor(name, ended, checks_changed, status, "Sends an alert for checks that fail, or pass again.")
            for name, ended in (
                (FAILED_CHECKS, DagsterRunStatus.SUCCESS),
                (f"{FAILED_CHECKS}_of_failed_runs", DagsterRunStatus.FAILURE),
            )
        ),
    ]


def _sensor(
    name: str,
    run_status: DagsterRunStatus,
    evaluate: Callable[[dg.RunStatusSensorContext], dg.SkipReason | None],
    status: dg.DefaultSensorStatus,
    description: str,
) -> dg.SensorDefinition:
    return dg.run_status_sensor(run_status=run_status, name=name, default_status=status, description=description)(
        evaluate
    )


def _failure(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """A sentence on a failed run, with the first error of its steps. Errors of steps have no row values."""
    for entry in instance.all_logs(run.run_id, of_type=DagsterEventType.STEP_FAILURE):
        event = entry.dagster_event
        data = event.step_failure_data if event else None
        if event is not None and data is not None:
            description = data.user_failure_data.description if data.user_failure_data else None
            found = description or (data.error.cls_name if data.error else "an unknown error")
            return f"Run {run.run_id} of {run.job_name} failed in {event.step_key}: {found}"
    return f"Run {run.run_id} of {run.job_name} failed before its first step. Look at it in Dagster."


# -- checks ------------------------------------------------------------------------------------------------------------


def _changes(instance: dg.DagsterInstance, run_id: str, warnings: bool) -> Iterator[str]:
    """One line for each check whose result in this run differs from its result in the run before."""
    for entry in instance.all_logs(run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION):
        evaluation = entry.dagster_event.asset_check_evaluation_data if entry.dagster_event else None
        if not isinstance(evaluation, dg.AssetCheckEvaluation):
            continue
        before = _before(instance, evaluation.asset_check_key, run_id)
        fails, failed = _fails(evaluation, warnings), before is not None and _fails(before, warnings)
        name = f"{evaluation.asset_key.to_user_string()} {evaluation.check_name}"
        if fails and not failed:
            yield f"{evaluation.severity.value} {name}: {evaluation.description}"
        elif failed and not fails:
            yield f"PASSED {name}: {evaluation.description}"


def _before(instance: dg.DagsterInstance, key: dg.AssetCheckKey, run_id: str) -> dg.AssetCheckEvaluation | None:
    """The newest result of the check in a run before this one."""
    seen = False
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=10):
        if record.run_id == run_id:
            seen = True
        elif seen and isinstance(record.evaluation, dg.AssetCheckEvaluation):
            return record.evaluation
    return None


def _fails(evaluation: dg.AssetCheckEvaluation, warnings: bool) -> bool:
    return not evaluation.passed and (warnings or evaluation.severity is dg.AssetCheckSeverity.ERROR)
