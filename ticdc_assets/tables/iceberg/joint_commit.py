"""One commit of several tables: the catalog moves all of them to their new metadata, or none.

A catalog in an SQL database does it in one transaction of the database, a REST catalog through its endpoint
`transactions/commit`. The commit fails as a whole where another writer has changed one of the tables.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import DEFAULT_ENDPOINTS, VIEW_ENDPOINTS, RestCatalog
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier
from pyiceberg.table.update import AssertTableUUID
from sqlalchemy import update

from ticdc_assets.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.table import Transaction
    from pyiceberg.typedef import Identifier

    from ticdc_assets.tables.iceberg.jvm import JvmTable

_ENDPOINT: Final = "transactions/commit"
_NOT_OFFERED: Final = (404, 405, 406, 501)
_KINDS: Final[dict[int, type[Exception]]] = {
    **dict.fromkeys((404, 409), CommitFailedException),
    **dict.fromkeys((500, 502, 503, 504), CommitStateUnknownException),
}
_CONFLICTS: Final = ("NoSuchTableException", "NoSuchNamespaceException")


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """The change of a table from the metadata `base` to `fresh`: Iceberg's Java objects."""

    identifier: Identifier
    table: JvmTable
    base: Any
    fresh: Any


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """The change of one table as the catalog takes it: its metadata file and the one that this replaces, or a request
    in JSON. `tidy` removes the files that the table does not need after the commit."""

    identifier: Identifier
    content: str
    replaced: str = ""
    tidy: Callable[[], None] | None = None


class JointCommits(Protocol):
    """A catalog that can commit several tables at once."""

    def prepare(self, change: MetadataChange) -> PreparedChange:
        """The change of a table; an error here is of this table alone."""
        ...

    def prepare_transaction(self, transaction: Transaction) -> PreparedChange:
        """The change that a transaction of pyiceberg has staged."""
        ...

    def publish(self, changes: Sequence[PreparedChange]) -> None:
        """Make all changes, or none. Raises CommitFailedException where another writer has changed one of the tables;
        after any other error the catalog may have made all of them."""
        ...


def joint_commits(catalog: Catalog) -> JointCommits:
    """The joint commits of a catalog. Raises ConfigError where it has none."""
    if isinstance(catalog, SqlCatalog):
        return _InDatabase(catalog)
    if isinstance(catalog, RestCatalog):
        offered = catalog._supported_endpoints  # noqa: SLF001  pyiceberg has no public name for it
        is_told = not offered <= {*DEFAULT_ENDPOINTS, *VIEW_ENDPOINTS}
        if is_told and not any(str(endpoint).endswith(_ENDPOINT) for endpoint in offered):
            raise _without(catalog)
        return _OverRest(catalog)
    raise _without(catalog)


def _without(catalog: Catalog) -> ConfigError:
    return ConfigError(
        f"catalog {catalog.name}",
        "one that commits several tables at once, since the config has `publish: together`",
        "one that commits each table alone",
        "Write `publish: each`, or remove it.",
    )


class _InDatabase:
    """A catalog in an SQL database, which has the place of each table's metadata file."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self._catalog = catalog

    def prepare(self, change: MetadataChange) -> PreparedChange:
        named, io, old = change.table.named, change.table.java.io(), str(change.base.metadataFileLocation())
        name = f"{self._catalog._parse_metadata_version(old) + 1:05d}-{uuid.uuid4()}.metadata.json"  # noqa: SLF001
        new = str(change.table.java.operations().metadataFileLocation(name))
        named("org.apache.iceberg.TableMetadataParser.write")(change.fresh, io.newOutputFile(new))
        remove = named("org.apache.iceberg.CatalogUtil.deleteRemovedMetadataFiles")
        return PreparedChange(change.identifier, new, old, lambda: remove(io, change.base, change.fresh))

    def prepare_transaction(self, transaction: Transaction) -> PreparedChange:
        table, catalog = transaction._table, self._catalog  # noqa: SLF001
        requirements, updates = transaction._requirements, transaction._updates  # noqa: SLF001
        staged = catalog._update_and_stage_table(table, table.name(), requirements, updates)  # noqa: SLF001
        catalog._write_metadata(staged.metadata, staged.io, staged.metadata_location)  # noqa: SLF001
        tidy = lambda: catalog._delete_old_metadata(table.io, table.metadata, staged.metadata)  # noqa: E731, SLF001
        return PreparedChange(tuple(table.name()), staged.metadata_location, table.metadata_location, tidy)

    def publish(self, changes: Sequence[PreparedChange]) -> None:
        columns = IcebergTables.__table__.c
        with self._catalog.engine.begin() as connection:
            for change in sorted(changes, key=lambda one: one.identifier):  # one order for all: no deadlocks
                where = [
                    columns.catalog_name == self._catalog.name,
                    columns.table_namespace == Catalog.namespace_to_string(change.identifier[:-1]),
                    columns.table_name == change.identifier[-1],
                    columns.metadata_location == change.replaced,
                ]
                moved = update(IcebergTables).where(*where)
                moved = moved.values(metadata_location=change.content, previous_metadata_location=change.replaced)
                if connection.execute(moved).rowcount < 1:
                    raise CommitFailedException(f"{'.'.join(change.identifier)} has been changed by another writer")


class _OverRest:
    """A REST catalog, which gets the changes of each table and what has to be true before them."""

    def __init__(self, catalog: RestCatalog) -> None:
        self._catalog = catalog

    def prepare(self, change: MetadataChange) -> PreparedChange:
        named, identifier = change.table.named, change.table.identifier_of(change.identifier)
        changes = change.fresh.changes()
        required = named("org.apache.iceberg.UpdateRequirements.forUpdateTable")(change.base, changes)
        create = named("org.apache.iceberg.rest.requests.UpdateTableRequest.create")
        to_json = named("org.apache.iceberg.rest.requests.UpdateTableRequestParser.toJson")
        return PreparedChange(change.identifier, str(to_json(create(identifier, required, changes))))

    def prepare_transaction(self, transaction: Transaction) -> PreparedChange:
        table = transaction._table  # noqa: SLF001
        name = tuple(table.name())
        where = TableIdentifier(namespace=Namespace(list(name[:-1])), name=name[-1])
        required = (*transaction._requirements, AssertTableUUID(uuid=table.metadata.table_uuid))  # noqa: SLF001
        request = CommitTableRequest(identifier=where, requirements=required, updates=transaction._updates)  # noqa: SLF001
        return PreparedChange(name, request.model_dump_json())

    def publish(self, changes: Sequence[PreparedChange]) -> None:
        body = f'{{"table-changes":[{",".join(change.content for change in changes)}]}}'
        answer = self._catalog._session.post(self._catalog.url(_ENDPOINT), data=body.encode())  # noqa: SLF001
        if answer.status_code in _NOT_OFFERED and not any(name in answer.text for name in _CONFLICTS):
            raise _without(self._catalog)
        try:
            answer.raise_for_status()
        except OSError as error:  # requests' HTTPError, the only kind that this method raises
            fault: Any = error
            _handle_non_200_response(fault, _KINDS)


def tidied(changes: Sequence[PreparedChange]) -> None:
    """Remove what the tables do not need any more; what cannot be removed stays for maintenance."""
    for change in changes:
        if change.tidy is not None:
            with suppress(Exception):
                change.tidy()
