"""A commit whose answer is lost: what the table says now decides, and never the error.

A catalog's answer may be lost on its way although the commit landed, or reach us as an error of any library. So after
every commit that did not come back well the table is looked at again; only what is not there is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.table import Table, Transaction

from ticdc_assets.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

COMMITS_AT_ONCE: Final = 4  # they wait for the catalog and the file system more than for the processor
NOT_KNOWN: Final = (CommitFailedException, CommitStateUnknownException)
"""What a catalog says where somebody else committed, or where it cannot say itself: look, then try again."""


@contextmanager
def transaction(table: Table) -> Iterator[Transaction]:
    """One commit on the table. Where it fails, what was written for it stays; pyiceberg would delete it.

    A catalog may say that somebody else came first although it was we: the request landed, its answer was lost, and
    something on the way asked again. Then a table whose files were deleted could not be read any more. What a commit
    that did fail leaves is found by the maintenance of leftovers.
    """
    with _Transaction(table) as made:
        yield made
        for producer in made._snapshot_producers:  # noqa: SLF001
            producer._clean_all_uncommitted = _keep  # type: ignore[method-assign]  # noqa: SLF001


class _Transaction(Transaction):
    """A transaction that works its metadata out once for the updates that are staged.

    pyiceberg does it at every look, a dozen times a commit, and copies all of it each time: that was half of what a
    commit took.
    """

    _seen: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        base, updates = self._table.metadata, self._updates
        if self._seen is None or self._seen[0] is not base or self._seen[1] is not updates:
            self._seen = (base, updates, super().table_metadata if updates else base)
        return self._seen[2]


def _keep() -> None:
    pass


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
