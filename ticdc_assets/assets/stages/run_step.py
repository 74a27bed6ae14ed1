"""What the three steps of a run share: the pool, the resource, and how a failure is reported."""

# Dagster evaluates the annotation of `context`, so this module must not postpone annotations.
from collections.abc import Callable, Iterator, Sequence

import dagster as dg

from ticdc_assets.assets.resources import ChangefeedRun, report_failures
from ticdc_assets.assets.steps import Feed

Results = Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization]
StageWork = Callable[[dg.AssetExecutionContext, Feed, ChangefeedRun], Results]


def run_step(
    feed: Feed, op: str, specs: Sequence[dg.AssetSpec], work: StageWork, can_subset: bool = True
) -> dg.AssetsDefinition:
    """The assets that one op materializes, in the changefeed's pool.

    Args:
        work: yields the results of the step.
        can_subset: whether a run may select only some of the assets.
    """

    @dg.multi_asset(
        name=op, specs=specs, can_subset=can_subset, pool=feed.names.pool, required_resource_keys={feed.names.resource}
    )
    def step(context: dg.AssetExecutionContext) -> Results:
        run: ChangefeedRun = getattr(context.resources, feed.names.resource)
        with report_failures(run, context.retry_number):
            yield from work(context, feed, run)

    return step
