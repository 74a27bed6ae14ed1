"""The clones of tables that are rebuilt, in the namespace of the control tables."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.catalog import Identifier


def clone_name(lake: Lake, source_table: SourceTable, run_id: str) -> Identifier:
    """The name of a table's clone while it is rebuilt."""
    return (*lake.control.namespace, f"{_prefix(source_table)}{run_id}")


def _prefix(source_table: SourceTable) -> str:
    return f"clone_{hashlib.sha256(source_table.id.encode()).hexdigest()[:12]}_"


def forget_clones(lake: Lake, source_table: SourceTable) -> None:
    """Remove the source table's clones from the catalog, including those of killed rebuilds. Their files stay: some
    belong to the rebuilt table."""
    for identifier in lake.catalog.list_tables(lake.control.namespace):
        if identifier[-1].startswith(_prefix(source_table)):
            with suppress(NoSuchTableError):
                lake.catalog.drop_table(identifier)
