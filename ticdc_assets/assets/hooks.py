"""What a component changes of the definitions of its changefeeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import dagster as dg
from dagster.components.resolved.core_models import OpSpec

from ticdc_assets.assets.translation import Translate

Results = Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization]
Execute = Callable[[dg.AssetExecutionContext, Callable[[], Results]], Results]
"""Runs a step of a run, which its second argument does by default."""
OnNewTables = Callable[[dg.AssetExecutionContext], None]
"""Called at the end of a run that has recorded tables without assets."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The functions of one component, None for what stays as it is, and the settings of the ops of its assets."""

    translate: Translate | None = None
    on_new_tables: OnNewTables | None = None
    execute: Execute | None = None
    op: OpSpec = field(default_factory=OpSpec)
