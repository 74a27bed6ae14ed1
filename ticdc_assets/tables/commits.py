"""A commit whose answer is lost: what the table says now decides, and never the error.

A catalog's answer may be lost on its way although the commit landed, or reach us as an error of any library. So after
every commit that did not come back well the table is looked at again; only what is not there is tried again.
"""

from __future__ import annotations

from typing import Final

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.table import Table

from ticdc_assets.errors import ConfigError

NOT_KNOWN: Final = (CommitFailedException, CommitStateUnknownException)
"""What a catalog says where somebody else committed, or where it cannot say itself: look, then try again."""


def refreshed(table: Table) -> Table:
    """The table as it is now. Raises ConfigError where it is gone or another has its name."""
    try:
        return table.refresh()
    except NoSuchTableError:
        raise other_table(".".join(table.name()), "none") from None
    except ValueError as error:  # pyiceberg compares the tables' UUIDs
        if "UUID" not in str(error):
            raise
        raise other_table(".".join(table.name()), "another of its name") from None


def other_table(name: str, found: str) -> ConfigError:
    """The error of a table that is not the one that was written before."""
    todo = (
        "Restore it, or let the catalog be as it was. Where the source still has everything, a changefeed of another "
        "name begins anew."
    )
    return ConfigError(name, "the table that earlier runs wrote", found, todo)
