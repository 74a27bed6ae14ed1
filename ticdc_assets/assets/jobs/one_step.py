"""A Dagster job of one op, for work on the tables of a changefeed that is no asset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from ticdc_assets.assets.steps import Feed

JobWork = Callable[[dg.OpExecutionContext, "Feed"], Iterator[dg.Output[None]]]


@dataclass(frozen=True, slots=True)
class OneStep:
    """The op of a job. `settings` are the fields of the run's config, which `work` finds in `context.op_config`."""

    op: str
    job: str
    op_description: str
    job_description: str
    settings: Mapping[str, Any]
    work: JobWork


def one_step_job(feed: Feed, resource: dg.ResourceDefinition, step: OneStep) -> dg.JobDefinition:
    """A job that runs the step in its own process, in the changefeed's pool, with the changefeed's resource."""
    # A lambda, because Dagster rejects an op function whose context annotation is a string, as here.
    op = dg.OpDefinition(
        lambda context, _: step.work(context, feed),
        step.op,
        description=step.op_description,
        config_schema=dict(step.settings),
        required_resource_keys={feed.names.resource},
        pool=feed.pool,
        outs={"result": dg.Out(dg.Nothing)},
    )
    graph = dg.GraphDefinition(step.job, node_defs=[op])
    return graph.to_job(
        name=step.job,
        description=step.job_description,
        tags=feed.names.tags,
        executor_def=dg.in_process_executor,
        resource_defs={feed.names.resource: resource},
    )
