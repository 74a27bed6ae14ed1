"""Runs that sensors and schedules request: they process every table, and report those that have news.

Dagster stores events for every step, selected asset and check, so a request selects one asset: its step does the work
of all, and logs what is new. A run that a user starts selects, and reports, every table.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from ticdc_assets.assets.steps import DATA_VERSION_TAG, INPUT_VERSION_TAG

if TYPE_CHECKING:
    from ticdc_assets.assets.steps import Feed

REPORTED_AGAIN_S: Final = 3 * 3600
"""A table without news is reported after this time, with its later watermark; after a quarter of `max_lag`, if that is
shorter, so that it stays fresh."""

_CODE_VERSION_TAG: Final = "dagster/code_version"
_POINTER_TAG: Final = "dagster/input_event_pointer/{}"
_NO_POINTER: Final = "NULL"
"""Dagster takes an input for a new one where its event is not named, but compares only its version."""
_NEWS: Final = (
    "state", "note", "quarantined", "discarded", "view", "no_history", "run_quarantined", "dagster/row_count",
)  # fmt: skip
"""Metadata whose change is news."""

Outcome = tuple[dg.AssetSpec, dg.MaterializeResult[None]]


def requested_keys(feed: Feed) -> list[dg.AssetKey]:
    """The assets that a request of a run selects, with no check."""
    return [feed.names.watermarks]


def reports_news(context: dg.AssetExecutionContext, feed: Feed) -> bool:
    """Whether this run was requested. Where a user selects the same asset, Dagster adds its checks."""
    run = context.run
    return run.asset_selection == frozenset(requested_keys(feed)) and run.asset_check_selection == frozenset()


def news(
    context: dg.AssetExecutionContext, feed: Feed, outcomes: Iterable[Outcome], inputs: Mapping[dg.AssetKey, str]
) -> Iterator[dg.AssetMaterialization]:
    """The outcomes that differ from the last materializations of their assets.

    Args:
        inputs: the data versions of the assets that they were made from.
    """
    found = list(outcomes)
    records = context.instance.get_asset_records([spec.key for spec, _ in found])
    last = {record.asset_entry.asset_key: record.asset_entry.last_materialization for record in records}
    for spec, result in found:
        tags = _tags(spec, result, inputs)
        pointers = {_POINTER_TAG.format(dep.asset_key.to_user_string()): _NO_POINTER for dep in spec.deps}
        event = dg.AssetMaterialization(spec.key, metadata=result.metadata, tags=tags | pointers)
        if _is_news(event, tags, last.get(spec.key), _again_s(feed)):
            yield event


def _again_s(feed: Feed) -> float:
    limit = feed.shown.max_lag_s
    return REPORTED_AGAIN_S if limit is None else min(REPORTED_AGAIN_S, limit / 4)


def _tags(spec: dg.AssetSpec, result: dg.MaterializeResult[None], inputs: Mapping[dg.AssetKey, str]) -> dict[str, str]:
    """The versions that Dagster writes for a result of a step: of the data, the code, and the inputs."""
    deps = {dep.asset_key for dep in spec.deps}
    return {
        **({DATA_VERSION_TAG: result.data_version.value} if result.data_version else {}),
        **({_CODE_VERSION_TAG: spec.code_version} if spec.code_version else {}),
        **{INPUT_VERSION_TAG.format(key.to_user_string()): inputs[key] for key in deps if key in inputs},
    }


def _is_news(
    event: dg.AssetMaterialization, versions: Mapping[str, str], last: dg.EventLogEntry | None, again_s: float
) -> bool:
    before = last.asset_materialization if last is not None else None
    if last is None or before is None or time.time() - last.timestamp >= again_s:
        return True
    return not versions.items() <= (before.tags or {}).items() or _told(event) != _told(before)


def _told(event: dg.AssetMaterialization) -> dict[str, Any]:
    return {name: event.metadata[name].value for name in _NEWS if name in event.metadata}
