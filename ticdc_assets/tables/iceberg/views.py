"""Iceberg's views, through its Java API: SQL text in the catalog that engines read like a table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyiceberg.typedef import Identifier
from pyspark.errors import UnsupportedOperationException

from ticdc_assets.errors import ConfigError, LakeError
from ticdc_assets.names import quote_path
from ticdc_assets.tables.iceberg.jvm import JvmCatalog, kind
from ticdc_assets.tso import to_datetime

RECORDED_TSO: Final = "_ticdc_recorded_tso"
RECORDED_TIME: Final = "_ticdc_recorded_time"
OWNER: Final = "ticdc.changefeed"
"""The property of a view that names the changefeed that keeps it."""

_NONE: Final = ("NoSuchViewException", "NoSuchNamespaceException")
_TRIES_MAX: Final = 5
_KEPT: Final = {"replace.drop-dialect.allowed": "true"}
"""Without it, Iceberg refuses every later text after somebody has added one in another dialect."""


@dataclass(frozen=True, slots=True)
class ShownSnapshot:
    """What a view shows: a snapshot of a mirror, of the record at this TSO. `told` are more properties of the view."""

    mirror: Identifier
    snapshot_id: int
    tso: int
    told: tuple[tuple[str, str], ...] = ()

    @property
    def sql(self) -> str:
        """The view's text in Spark's dialect. The catalog is not named: it may have another name in another engine."""
        source = quote_path((*self.mirror, f"snapshot_id_{self.snapshot_id}"))
        time = to_datetime(self.tso).strftime("%Y-%m-%d %H:%M:%S.%f UTC")
        return f"SELECT *, {self.tso}L AS {RECORDED_TSO}, TIMESTAMP '{time}' AS {RECORDED_TIME} FROM {source}"  # noqa: S608


class JvmViews:
    """The views of the catalog. Raises ConfigError where it has none."""

    def __init__(self, jvm: JvmCatalog) -> None:
        self._jvm = jvm
        gateway = jvm.spark.sparkContext._gateway  # noqa: SLF001  the only way to Iceberg's Java API
        if not is_instance_of(gateway, jvm.java, "org.apache.iceberg.catalog.ViewCatalog"):
            raise _without_views(jvm.name)

    def put(
        self, identifier: Identifier, shown: ShownSnapshot, owner: str, location: str | None, is_ours: bool
    ) -> str | None:
        """Make the view, or replace its text.

        Args:
            location: the folder of its metadata; None where the catalog chooses it.
            is_ours: whether the changefeed `owner` is known to have made it.

        Returns:
            The URI of its metadata file; None where the catalog does not give it.

        Raises:
            ConfigError: the name is that of a table or of another's view, or the catalog has no views.
            LakeError: the mirror has no such snapshot.
        """
        name = self._jvm.identifier_of(identifier)
        if not is_ours and self._owner(name) not in (None, owner):
            raise _taken(identifier, "a view that this changefeed has not made")
        builder = self._jvm.java.buildView(name).withSchema(self._schema(identifier, shown))
        builder = builder.withQuery("spark", shown.sql).withDefaultNamespace(name.namespace())
        for key, value in {**_KEPT, OWNER: owner, "ticdc.tso": str(shown.tso), **dict(shown.told)}.items():
            builder = builder.withProperty(key, value)
        if location is not None:
            builder = builder.withLocation(location)
        uri = self._made(identifier, builder, owner).operations().current().metadataFileLocation()
        return None if uri is None else str(uri)

    def _made(self, identifier: Identifier, builder: Any, owner: str) -> Any:
        for attempt in range(_TRIES_MAX):  # another run of the changefeed may put the same view
            try:
                return builder.createOrReplace()
            except UnsupportedOperationException as error:  # pyspark has made it of Java's
                raise _without_views(self._jvm.name) from error
            except Py4JJavaError as error:
                is_last = attempt == _TRIES_MAX - 1
                if kind(error) == "AlreadyExistsException":
                    if is_last or self._owner(self._jvm.identifier_of(identifier)) != owner:
                        raise _taken(identifier, "a table") from error
                elif is_last or kind(error) != "CommitFailedException":
                    raise
        raise AssertionError("unreachable: the last try returns or raises")

    def drop(self, identifier: Identifier, owner: str) -> None:
        """Drop the view that `owner` has made; nothing happens where there is none."""
        name = self._jvm.identifier_of(identifier)
        if self._owner(name) == owner:
            self._jvm.java.dropView(name)

    def _owner(self, name: Any) -> str | None:
        """The changefeed that has made the view, "" for another view; None where there is no view."""
        try:
            view = self._jvm.java.loadView(name)
        except Py4JJavaError as error:
            if kind(error) in _NONE:
                return None
            raise
        return str(view.properties().get(OWNER) or "")

    def _schema(self, identifier: Identifier, shown: ShownSnapshot) -> Any:
        table = self._jvm.load(shown.mirror).java
        snapshot = table.snapshot(shown.snapshot_id)
        if snapshot is None:
            advice = "An expiry that is not this project's has removed it; the next complete record has another one."
            raise LakeError(".".join(identifier), f"snapshot {shown.snapshot_id} of the mirror", "none", advice)
        parser = "org.apache.iceberg.SchemaParser"
        schema = json.loads(str(self._jvm.named(f"{parser}.toJson")(table.schemas().get(snapshot.schemaId()))))
        schema.pop("identifier-field-ids", None)
        free = int(table.operations().current().lastColumnId()) + 1
        for number, (name, type_) in enumerate(((RECORDED_TSO, "long"), (RECORDED_TIME, "timestamptz"))):
            schema["fields"].append({"id": free + number, "name": name, "required": True, "type": type_})
        return self._jvm.named(f"{parser}.fromJson")(json.dumps(schema))


def _taken(identifier: Identifier, found: str) -> ConfigError:
    advice = "Give `views` of the changefeed a template whose names are free, or remove what is there."
    return ConfigError(".".join(identifier), "no table or view of this name", found, advice)


def _without_views(catalog: str) -> ConfigError:
    advice = "Remove `views` from the changefeed, and read a record of `watermarks`: docs/readers.md."
    return ConfigError(f"catalog {catalog}", "one with Iceberg's views, since the config has `views`", "none", advice)
