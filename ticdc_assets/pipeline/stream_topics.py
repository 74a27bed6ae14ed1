"""Which topic a table's messages are in, as far as its statements tell."""

from __future__ import annotations

from ticdc_assets.errors import SchemaError
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema.lineage import SourceName, fold_name
from ticdc_assets.schema.renames import rename_pairs
from ticdc_assets.schema.session_names import statements_of


def named_before(event: DdlEvent) -> set[SourceName]:
    """What the tables of a statement or schema were called before it: TiCDC sends it to the topic of that name."""
    if not event.table:
        return set()
    if event.before is not None:
        return {fold_name(event.before.schema, event.before.name)}
    try:
        statements = statements_of(event) if event.query else ()
    except SchemaError:
        return set()
    renamed = {fold_name(*old) for old, _ in rename_pairs(event, statements)} or {fold_name(event.schema, event.table)}
    return {name for name in renamed if name[0]}
