"""Commits whose response is lost: the table's state decides whether the commit succeeded, never the error.

A catalog's response may be lost after a successful commit, or arrive as an error of any library. So the table is loaded
again after each failed commit, and only a commit that it lacks is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate

from ticdc_assets.errors import ConfigError
from ticdc_assets.stack_frames import causes_of, java_classes
from ticdc_assets.tables.iceberg.metadata import updated

COMMITS_AT_ONCE: Final = 4  # these threads wait for the catalog and the file system more than for the processor
NOT_KNOWN: Final = (CommitFailedException, CommitStateUnknownException)
"""Another writer committed, or the catalog does not know the result: load the table, then try again."""


def was_overtaken(error: Exception) -> bool:
    """Whether an error of Spark comes from another writer's commit at the same moment."""
    classes = (name for cause in causes_of(error) for name in java_classes(cause))
    return any(name.rpartition(".")[2] == CommitFailedException.__name__ for name in classes)


@contextmanager
def transaction(table: Table) -> Iterator[Transaction]:
    """One commit on the table. Where it fails, its files stay; pyiceberg would delete them.

    A catalog may report a conflict after our own commit succeeded: the response was lost and a proxy sent the request
    again. Deleted files would then make the table unreadable. Maintenance removes the files of commits that did fail.
    """
    with _Transaction(table) as made:
        yield made
        for producer in made._snapshot_producers:  # noqa: SLF001
            producer._clean_all_uncommitted = _keep  # type: ignore[method-assign]  # noqa: SLF001


def uncommitted(table: Table) -> Transaction:
    """A transaction on the table that its caller commits."""
    return _Transaction(table)


class _Transaction(Transaction):
    """A transaction that computes its metadata once for its staged updates. pyiceberg computes it at each access, a
    dozen times per commit."""

    _seen: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        base, updates = self._table.metadata, self._updates
        if self._seen is None or self._seen[0] is not base or self._seen[1] is not updates:
            self._seen = (base, updates, updated(base, updates) if updates else base)
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
        raise other_table(".".join(table.name()), "another table of this name") from None


def other_table(name: str, found: str) -> ConfigError:
    """The error of a table that is not the one that earlier runs wrote."""
    advice = (
        "Restore the table or the catalog. If the source still has all data, read it again in a changefeed of another "
        "name."
    )
    return ConfigError(name, "the table that earlier runs wrote", found, advice)
