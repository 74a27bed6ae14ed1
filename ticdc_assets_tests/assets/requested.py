"""Runs as the daemon starts them for a request of a sensor: with its selection of assets and checks."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import create_execution_plan, execute_run
from dagster._core.snap import snapshot_from_execution_plan

from ticdc_assets_tests.assets.feeds import QUIET, Feed


def requested_run(
    feed: Feed, instance: dg.DagsterInstance, definitions: dg.Definitions | None = None, cursor: str | None = None
) -> dg.DagsterRun:
    """The one run that the sensor requests, after its end."""
    loaded = definitions or feed.definitions
    repository = loaded.get_repository_def()
    [sensor] = [sensor for sensor in repository.sensor_defs if sensor.name == f"{feed.name}_new_files"]
    context = dg.build_sensor_context(cursor=cursor, instance=instance, repository_def=repository)
    [request] = sensor.evaluate_tick(context).run_requests or []
    assert request.asset_selection is not None
    assert request.asset_check_keys is not None
    assets, checks = frozenset(request.asset_selection), frozenset(request.asset_check_keys)
    whole = loaded.resolve_job_def(f"{feed.name}__run")
    job = whole.get_subset(asset_selection=assets, asset_check_selection=checks)
    plan = create_execution_plan(job, QUIET, instance_ref=instance.get_ref() if instance.is_persistent else None)
    run = instance.create_run(
        job_name=job.name,
        run_id=None,
        run_config=QUIET,
        status=None,
        tags=request.tags,
        root_run_id=None,
        parent_run_id=None,
        step_keys_to_execute=None,
        execution_plan_snapshot=snapshot_from_execution_plan(plan, job.get_job_snapshot_id()),
        job_snapshot=job.get_job_snapshot(),
        parent_job_snapshot=job.get_parent_job_snapshot(),
        asset_selection=assets,
        asset_check_selection=checks,
        resolved_op_selection=None,
        op_selection=None,
        remote_job_origin=None,
        job_code_origin=None,
        asset_graph=job.asset_layer.asset_graph,
    )
    execute_run(InMemoryJob(job), run, instance, raise_on_error=False)
    ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    return ended
