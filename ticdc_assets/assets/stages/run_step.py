"""What the steps of assets share: the pool, the resource, and how a failure is reported."""

# Dagster evaluates the annotation of `context`, so this module must not postpone annotations.
from collections.abc import Callable, Sequence

import dagster as dg

from ticdc_assets.assets.hooks import Results
from ticdc_assets.assets.resources import ChangefeedRun, report_failures
from ticdc_assets.assets.steps import Feed

StageWork = Callable[[dg.AssetExecutionContext, Feed, ChangefeedRun], Results]


def run_step(
    feed: Feed,
    op: str,
    specs: Sequence[dg.AssetSpec],
    work: StageWork,
    can_subset: bool = True,
    backfill: dg.BackfillPolicy | None = None,
) -> dg.AssetsDefinition:
    """The assets that one op materializes, in the changefeed's pool, with what the component sets of it.

    Args:
        work: yields the results of the step.
        can_subset: whether a run may select only some of the assets.
        backfill: how many partitions a run of a backfill has, where the component does not say it.
    """
    hooks = feed.hooks

    @dg.multi_asset(
        name=f"{hooks.op.name}__{op}" if hooks.op.name else op,
        description=hooks.op.description,
        specs=specs,
        can_subset=can_subset,
        op_tags=hooks.op.tags,
        backfill_policy=hooks.op.backfill_policy or backfill,
        pool=feed.pool,
        required_resource_keys={feed.names.resource},
    )
    def step(context: dg.AssetExecutionContext) -> Results:
        run: ChangefeedRun = getattr(context.resources, feed.names.resource)

        def reported() -> Results:
            with report_failures(run, context.retry_number):
                yield from work(context, feed, run)

        yield from reported() if hooks.execute is None else hooks.execute(context, reported)

    return step
