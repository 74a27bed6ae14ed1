"""Why rows cannot be typed yet, as sentences for the notes of their tables."""

from __future__ import annotations

from ticdc_assets.protocols.events import RowEvent


def no_table(event: RowEvent) -> str:
    """Of a row whose table no longer has that name."""
    return (
        f"{event.schema}.{event.table}: expected a table of that name at the row, found that it was renamed or "
        "dropped before: the row was sent again, after the statement. Load the table again in a changefeed of another "
        "name, whose stream begins after the row."
    )


def no_schema(event: RowEvent) -> str:
    """Of a row whose schema is not known yet."""
    version = "" if event.hints.schema_version is None else f" version {event.hints.schema_version}"
    return (
        f"{event.schema}.{event.table}: expected the schema{version} that its rows were written with, found none yet. "
        "It waits: a BOOTSTRAP or DDL message brings the schema; or add the table to `schema_files`."
    )
