"""The topic of a table's messages, as determined from its statements."""

from __future__ import annotations

from collections.abc import Iterable

from ticdc_assets.errors import SchemaError
from ticdc_assets.protocols.avro.table_names import topic_of
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.renames import rename_pairs
from ticdc_assets.schema.history.session_names import statements_of
from ticdc_assets.schema.history.source_table import SourceName, fold_name


def named_in(topic: str, event: DdlEvent, rules: Iterable[str]) -> set[SourceName]:
    """The tables whose messages are in a topic, as the statement or schema `event` in it shows. `rules` are the topics
    that dispatch rules name.

    TiCDC sends a statement to the topic of the table's old name. A renamed table may stay in that topic.
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
