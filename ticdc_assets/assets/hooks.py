"""What a component changes of the definitions of its changefeeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg

from ticdc_assets.assets.translation import Translate

OnNewTables = Callable[[dg.AssetExecutionContext], None]
"""Called at the end of a run that has recorded tables without assets."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The functions of one component. None for what stays as it is."""

    translate: Translate | None = None
    on_new_tables: OnNewTables | None = None
