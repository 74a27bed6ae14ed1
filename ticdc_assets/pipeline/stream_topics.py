"""Which topic a table's messages are in, as far as its statements tell."""

from __future__ import annotations

from collections.abc import Iterable

from ticdc_assets.errors import SchemaError
from ticdc_assets.protocols.avro_names import topic_of
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema.lineage import SourceName, fold_name
from ticdc_assets.schema.renames import rename_pairs
from ticdc_assets.schema.session_names import statements_of


def named_in(topic: str, event: DdlEvent, rules: Iterable[str]) -> set[SourceName]:
    """The tables that a topic has as its statement or schema tells; `rules` are the topics that dispatch rules name.

    TiCDC sends a statement to the topic of the name before it. What is renamed may keep to that topic.
    """
    before, now = _named_before(event), (event.schema, event.table)
    if before and fold_name(*now) not in before and any(topic == topic_of(rule, now) for rule in rules):
        return before | {fold_name(*now)}
    return before


def _named_before(event: DdlEvent) -> set[SourceName]:
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
