"""What happens when a key of a changefeed changes on a lake with data. docs/config.md has the same table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class OnChange(StrEnum):
    """The kinds of effects of a change.

    NEXT: it applies to what runs read or make from now on. WHOLE: it applies to all tables of the lake with the next
    run. HELD: a table whose rows were read otherwise is held. REFUSED: the run ends before it writes anything.
    """

    NEXT = "from now on"
    WHOLE = "all tables"
    HELD = "held"
    REFUSED = "refused"


KEY_CHANGES: Final[Mapping[str, tuple[OnChange, str]]] = {
    "sink_uri": (
        OnChange.NEXT,
        "The new place has to have the same stream from where the last run ended. A stream with commit_ts and one "
        "without are refused for one another, and so are files and messages",
    ),
    "config": (OnChange.NEXT, "As `sink_uri`. What was read stays as it is"),
    "config_file": (OnChange.NEXT, "As `config`"),
    "source": (OnChange.NEXT, "As `sink_uri`"),
    "time_zone": (
        OnChange.HELD,
        "Tables with a TIMESTAMP column: `settings`. The others go on. If TiCDC itself changed its zone, read the "
        "stream from there on in a changefeed of its own",
    ),
    "tables": (
        OnChange.NEXT,
        "A table that is selected later is read from its beginning; one that is not selected any more keeps its rows, "
        "and goes on from where it ended when it is selected again",
    ),
    "schema_files": (
        OnChange.NEXT,
        "A table whose rows then have other columns is held: `late_statement`; one whose rows have another key: "
        "`settings`",
    ),
    "keys": (
        OnChange.HELD,
        "Tables whose key becomes another one: `settings`. A table without a key gets its mirror at once, unless an "
        "update has changed the new key. Columns that cannot be the key of a table: `keys`",
    ),
    "partition": (OnChange.NEXT, "Of mirrors that are created or rebuilt"),
    "format_version": (OnChange.NEXT, "Of mirrors and histories that are created"),
    "on_drop": (
        OnChange.WHOLE,
        "`drop` also removes the mirrors of tables that are dropped already; for good",
    ),
    "history": (
        OnChange.WHOLE,
        "A history is made from the whole changelog. One that is not selected any more stays as it is, and goes on "
        "when it is selected again",
    ),
    "views": (OnChange.WHOLE, "Views of the former names are removed"),
    "held_views": (OnChange.WHOLE, "Views of tables that are held are removed, or made again"),
    "readers": (OnChange.WHOLE, "Views show the record that is asked for from then on"),
    "zero_dates": (OnChange.NEXT, "What was read stays as it is; records in quarantine need a replay"),
    "on_bad_message": (OnChange.NEXT, "Records in quarantine stay there"),
    "skip_files": (OnChange.NEXT, "What was given up stays given up: `rebuild --from source` reads it"),
    "skip_offsets": (OnChange.NEXT, "What was given up stays given up: `rebuild --from source` reads it"),
    "claim_check": (OnChange.NEXT, ""),
    "schema_registry": (OnChange.NEXT, "Schemas that were fetched from the former one stay"),
    "ddl_from": (OnChange.NEXT, "A table whose rows then have other columns is held: `late_statement`"),
    "upstream": (OnChange.NEXT, "Rows that wait for it are completed"),
    "target": (
        OnChange.WHOLE,
        "`mirror` and `changelog`: the tables are renamed. `control`: refused, since the records of the changefeed are "
        "there",
    ),
    "dagster": (OnChange.NEXT, ""),
}
"""By key, the effect and what there is to know about it."""


def as_table() -> str:
    """The table of docs/config.md."""
    rows = [f"| `{key}` | {effect} | {text} |" for key, (effect, text) in KEY_CHANGES.items()]
    return "\n".join(["| key | a change applies | |", "|---|---|---|", *rows])
