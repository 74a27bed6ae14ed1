"""Why rows cannot be typed yet, as sentences for the notes of their tables."""

from __future__ import annotations

from ticdc_assets.protocols.events import RowEvent


def no_table(event: RowEvent) -> str:
    """Of a row whose table no longer has that name."""
    return (
        f"{event.schema}.{event.table}: expected a table of that name where the row is, found that it was renamed or "
        "dropped before: the row came again, after the statement. Load the table anew in a changefeed of another name, "
        "whose stream begins behind the row."
    )


def no_schema(event: RowEvent) -> str:
    """Of a row whose schema is not known yet."""
    version = "" if event.schema_version is None else f" version {event.schema_version}"
    return (
        f"{event.schema}.{event.table}: expected the schema{version} that its rows were written with, found none yet. "
        "It waits: the schema comes with a BOOTSTRAP or DDL message, or give the table in `schema_files`."
    )
