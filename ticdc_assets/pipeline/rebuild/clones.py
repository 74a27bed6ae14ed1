"""The clones of tables that are rebuilt, in the namespace of the control tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from ticdc_assets.faults import interrupted_by

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.catalog import Identifier


class NotMadeError(Exception):
    """Raised with the error that stopped the new table."""


@contextmanager
def kept_clone(lake: Lake, source_table: SourceTable, clone: Identifier) -> Iterator[None]:
    """Forget the clone of this rebuild at the end, and those of killed rebuilds where this one succeeds.

    Raises NotMadeError where another rebuild of the table has succeeded meanwhile, and has forgotten this clone: any
    error of a library may come from that.
    """
    try:
        yield
    except BaseException as error:
        was_forgotten = not interrupted_by(error) and not lake.catalog.table_exists(clone)
        _forget(lake, clone)
        if not was_forgotten:
            raise
        found = f"{'.'.join(source_table.name)}: expected no other rebuild of it at the same time, found one."
        raise NotMadeError(f"{found} That one has replaced the table, and this one has changed nothing.") from error
    forget_clones(lake, source_table)


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
            _forget(lake, identifier)


def _forget(lake: Lake, clone: Identifier) -> None:
    with suppress(NoSuchTableError):
        lake.catalog.drop_table(clone)
