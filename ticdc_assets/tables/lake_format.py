"""The format of a lake: the columns of its control tables and the properties of its tables, under one number.

Each control table has the number as a property, and the release that first wrote this format. Whoever loads a control
table compares it, so a release that does not know the format reads nothing and writes nothing. A lake without the
property has format 1. A change of the columns or properties raises `FORMAT`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from ticdc_assets import __version__
from ticdc_assets.errors import ConfigError
from ticdc_assets.tables.catalog import Identifier, load_or_none
from ticdc_assets.tables.iceberg.commits import NOT_KNOWN, refreshed, transaction

FORMAT: Final = 1
FORMAT_PROPERTY: Final = "ticdc.format"
RELEASE_PROPERTY: Final = "ticdc.format-release"
MARK: Final = {FORMAT_PROPERTY: str(FORMAT), RELEASE_PROPERTY: __version__}
"""The properties of a new control table."""
_TRIES_MAX: Final = 5


def load_control_table(catalog: Catalog, identifier: Identifier) -> Table | None:
    """A control table; None where there is none. Raises ConfigError where the lake has a newer format."""
    table = load_or_none(catalog, identifier)
    found = _format_of(table) if table is not None else FORMAT
    if table is None or found <= FORMAT:
        return table
    release = table.properties.get(RELEASE_PROPERTY, "")
    raise ConfigError(
        ".".join(identifier),
        f"a lake of format {FORMAT} or lower, which ticdc-assets {__version__} knows",
        f"format {found} of ticdc-assets {release}",
        f"Run: pip install 'ticdc-assets>={release}'. Nothing was changed.",
    )


def marked(table: Table) -> Table:
    """The control table with this release's format as property; a commit only where it has a lower one or none."""
    for _ in range(_TRIES_MAX):
        if FORMAT_PROPERTY in table.properties and _format_of(table) >= FORMAT:
            break
        with suppress(*NOT_KNOWN), transaction(table) as tx:
            tx.set_properties(MARK)
        table = refreshed(table)
    return table


def _format_of(table: Table) -> int:
    return int(table.properties.get(FORMAT_PROPERTY, "1"))
