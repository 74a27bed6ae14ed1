"""`ticdc-assets schema`: the columns and the key of a table at a TSO, and its statements since. Needs no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.commands.output.terminal import Terminal, moment
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import column_name
from ticdc_assets.pipeline.history.knowledge import LakeKnowledge
from ticdc_assets.pipeline.history.tables import split_name, statements_between, table_at, version_after
from ticdc_assets.pipeline.lake import Lake, read_only_config
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl.mysql_types import default_text, type_text
from ticdc_assets.tables.iceberg.types import iceberg_type
from ticdc_assets.tso import is_tso

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.schema.model import Column, TableSchema

_NAMES: Final = ("column", "type", "null", "default", "in the lake")


def schema(config: Config, changefeed: Changefeed, name: str, at: int, as_json: bool) -> int:
    """Print the table's columns at a TSO. Returns the exit code."""
    terminal = Terminal()
    found = schema_at(Lake(read_only_config(config), changefeed), name, at)
    if as_json:
        terminal.json(found)
        return 0
    terminal.result(f"{found['schema']}.{found['table']} at {moment(at)}")
    terminal.columns(_NAMES, [_cells(column) for column in found["columns"]])
    terminal.result(f"key: {', '.join(found['key']) or 'none'}")
    if found["inferred"]:
        terminal.result("The types are inferred from rows: the stream has no statement with these columns.")
    if at < found["known_from"]:
        terminal.result(f"It is known from {moment(found['known_from'])} on: these are its columns of then.")
    for statement in found["statements_since"]:
        terminal.result(f"since, at {moment(statement['commit_ts'])}: {statement['query']}")
    return 0


def schema_at(lake: Lake, name: str, at: int) -> dict[str, Any]:
    """The columns, the key and the later statements of the table that has the name at the TSO.

    Raises:
        ConfigError: messages without commit_ts have no TSOs, no table has the name at this TSO, or the lake begins
            later.
        NotYetError: there was no run.
    """
    if not lake.measures_lag and is_tso(at):
        advice = "Give the number of messages, as `ticdc-assets tables` shows it."
        raise ConfigError(f"changefeed {lake.changefeed.name}", "a stream with TSOs", "one without", advice)
    history = lake.history()
    known = LakeKnowledge.of(lake, lake.control.newest(), history, lake.control.ddl_events())
    known.require(at)
    source_table = table_at(lake, history, split_name(name), at)
    version = version_after(source_table, at)
    table = _as_of(lake, source_table, at)
    schema_name, table_name = source_table.name_at(at) or source_table.name
    return {
        "schema": schema_name,
        "table": table_name,
        "at": at,
        "since": version.from_ts,
        "columns": [_column(column) for column in table.columns],
        "key": list(table.key),
        "inferred": table.inferred,
        "known_from": known.table(source_table, at).begin,
        "statements_since": [
            {"commit_ts": event.commit_ts, "query": event.query}
            for event in statements_between(source_table, lake.control.ddl_events(), at)
        ],
    }


def _as_of(lake: Lake, source_table: SourceTable, at: int) -> TableSchema:
    """The table after its statements up to the TSO. A statement that changes only virtual columns or indexes makes no
    new version, so a version may show statements above the TSO. So the history is folded again from the statements up
    to the TSO; the result is used if it has the same stored columns."""
    full = version_after(source_table, at).table
    then = lake.folds.of(event for event in lake.control.ddl_events() if event.commit_ts <= at)
    found = then.by_id().get(source_table.id)
    table = None if found is None else version_after(found, at).table
    return table if table is not None and table.stored_columns == full.stored_columns else full


def _column(column: Column) -> dict[str, Any]:
    """`lake_column` and `lake_type` are None for virtual columns, which the stream and so the lake do not have."""
    lake_type = None if column.virtual else str(iceberg_type(arrow_type(column.type), iter(range(1, 9))))
    return {
        "name": column.name,
        "type": type_text(column.type),
        "nullable": column.nullable,
        "default": default_text(column.default),
        "virtual": column.virtual,
        "lake_column": None if column.virtual else column_name(column.name),
        "lake_type": lake_type,
    }


def _cells(column: dict[str, Any]) -> tuple[str, ...]:
    lake = "not stored (virtual)" if column["virtual"] else f"{column['lake_column']} {column['lake_type']}"
    return column["name"], column["type"], "yes" if column["nullable"] else "no", column["default"] or "", lake
