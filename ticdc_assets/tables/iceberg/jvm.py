"""Iceberg's own Java API, reached through the running Spark session.

pyiceberg cannot write format 3, so this API creates and evolves mirrors and publishes branches. A branch publishes rows
at most once: rows are written on a branch that starts at the snapshot the run was planned from, and main moves there
only by fast-forward, which fails if main has changed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import orjson
from py4j.protocol import Py4JJavaError
from pyiceberg.typedef import Identifier
from pyspark.errors import IllegalArgumentException

from ticdc_assets.changes.layout import LakeColumn
from ticdc_assets.errors import ConfigError, StaleRunError
from ticdc_assets.tables.conversion.functions import register
from ticdc_assets.tables.iceberg.properties import COLUMNS, REPLAYED, VERSION
from ticdc_assets.tables.iceberg.schema_step import SpecField
from ticdc_assets.tables.iceberg.types import can_identify, type_json

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


_MADE_BY_ANOTHER: Final = ("AlreadyExistsException", "CommitFailedException")
_OVERTAKEN: Final = "CommitFailedException"


class JvmCatalog:
    """The catalog as Spark's JVM holds it."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.spark = spark
        self.name = name
        self.jvm = spark.sparkContext._jvm  # noqa: SLF001  the only way to Iceberg's Java API
        self._sessions = threading.local()
        self._named: dict[str, Any] = {}
        session = spark._jsparkSession  # noqa: SLF001
        # Catalogs are looked up in the thread's active session, and that may still be one of another run.
        self.named("org.apache.spark.sql.classic.SparkSession.setActiveSession")(session)
        self._catalog = self.named("org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog")(session, name)

    def thread_session(self) -> SparkSession:
        """This thread's own Spark session: its settings do not affect other threads."""
        if not hasattr(self._sessions, "spark"):
            fresh = self.spark.newSession()
            for key, value in self.spark.conf.getAll.items():
                if key.startswith(f"spark.sql.catalog.{self.name}"):
                    fresh.conf.set(key, value)  # a catalog that joined after Spark's start is not inherited
            register(fresh)
            self._sessions.spark = fresh
        return self._sessions.spark

    def named(self, path: str) -> Any:
        """A class or static method of Java, cached: py4j asks the JVM for every part of its path."""
        if path not in self._named:
            self._named[path] = reduce(getattr, path.split("."), self.jvm)
        return self._named[path]

    def create(
        self,
        identifier: Identifier,
        columns: Sequence[LakeColumn],
        key: Sequence[str],
        location: str | None,
        properties: Mapping[str, str],
        partitioning: Sequence[SpecField] = (),
    ) -> JvmTable:
        """Create a table with one empty snapshot, from which branches can start.

        Args:
            columns: in this order they get the field ids 1 to n.
            key: the names of the identifier fields.
            location: None if the catalog chooses it.

        Raises:
            StaleRunError: another run has created the table first.
        """
        schema = self.named("org.apache.iceberg.SchemaParser.fromJson")(json.dumps(_schema_json(columns, key)))
        spec = self.named("org.apache.iceberg.PartitionSpec.builderFor")(schema)
        for field in partitioning:
            argument = () if field.argument is None else (field.argument,)
            spec = getattr(spec, field.transform)(field.column, *argument, field.name)
        builder = self._catalog.buildTable(self.identifier_of(identifier), schema)
        if location is not None:
            builder = builder.withLocation(location)
        builder = builder.withPartitionSpec(spec.build()).withProperties(self.map_of(properties))
        try:
            transaction = builder.createTransaction()
            transaction.newAppend().commit()
            transaction.commitTransaction()
        except Py4JJavaError as error:
            if kind(error) not in _MADE_BY_ANOTHER:
                raise
            advice = "Another run created it first, and nothing was written twice. Run again to continue from there."
            raise StaleRunError(".".join(identifier), "no table yet", "one", advice) from error
        return self.load(identifier)

    def load(self, identifier: Identifier) -> JvmTable:
        """The table. Raises the error of Iceberg where there is none."""
        return JvmTable(self, self._catalog.loadTable(self.identifier_of(identifier)))

    @property
    def java(self) -> Any:
        """The catalog in Java."""
        return self._catalog

    def identifier_of(self, identifier: Identifier) -> Any:
        """An identifier in Java."""
        gateway = self.spark.sparkContext._gateway  # noqa: SLF001
        levels = gateway.new_array(self.named("java.lang.String"), len(identifier) - 1)
        for number, level in enumerate(identifier[:-1]):
            levels[number] = level
        namespace = self.named("org.apache.iceberg.catalog.Namespace.of")(levels)
        return self.named("org.apache.iceberg.catalog.TableIdentifier.of")(namespace, identifier[-1])

    def register(self, identifier: Identifier, metadata_uri: str) -> None:
        """Register the table of this metadata under another name."""
        self._catalog.registerTable(self.identifier_of(identifier), metadata_uri)

    def map_of(self, values: Mapping[str, str]) -> Any:
        """A Java map of strings."""
        java = self.named("java.util.HashMap")()
        for key, value in values.items():
            java.put(key, value)
        return java

    def builder_from(self, metadata: Any) -> Any:
        """A builder of table metadata from a table's current metadata."""
        return self.named("org.apache.iceberg.TableMetadata.buildFrom")(metadata)

    def set_of(self, values: Iterable[str | int]) -> Any:
        """A Java set of strings, or of snapshot ids: random numbers of 63 bits, which py4j sends as longs."""
        java = self.named("java.util.HashSet")()
        for value in values:
            java.add(value)
        return java

    def type_from_json(self, text: str) -> Any:
        """An Iceberg type from its JSON form, parsed in a schema of one field."""
        schema = {"type": "struct", "schema-id": 0, "fields": [
            {"id": 1, "name": "x", "required": False, "type": json.loads(text)}
        ]}  # fmt: skip
        return self.named("org.apache.iceberg.SchemaParser.fromJson")(json.dumps(schema)).findType("x")


class JvmTable:
    """One table. Each method is one commit."""

    def __init__(self, catalog: JvmCatalog, table: Any) -> None:
        self._catalog = catalog
        self.named = catalog.named
        self.identifier_of = catalog.identifier_of
        self.java = table

    @property
    def row_changes(self) -> Any:
        """This project's Java object for changes of rows."""
        return row_changes(self._catalog.jvm, self.java)

    def append_nothing(self, summary: Mapping[str, str], branch: str = "main") -> None:
        """Commit a snapshot without files that has `summary`."""
        append = self.java.newAppend().toBranch(branch)
        for key, value in summary.items():
            append = append.set(key, value)
        append.commit()

    @property
    def current_snapshot_id(self) -> int:
        """The id of the current snapshot; the table must have one."""
        self.java.refresh()
        return int(self.java.currentSnapshot().snapshotId())

    def has_committed(self, branch: str, since: int, summary: Mapping[str, str]) -> bool:
        """Whether the newest snapshot of a branch is not `since` and has `summary`."""
        self.java.refresh()
        newest = self.java.snapshot(branch)
        stored = newest.summary()
        return int(newest.snapshotId()) != since and all(stored.get(key) == value for key, value in summary.items())

    def field_ids(self) -> dict[str, int]:
        """The field ids of the top-level columns, by name."""
        return {field.name(): int(field.fieldId()) for field in self.java.schema().columns()}

    def start_branch(self, branch: str, snapshot_id: int) -> None:
        """Create a branch at a snapshot and replace one of the same name from a killed run. Raises StaleRunError where
        another run commits at the same time."""
        manage = self.java.manageSnapshots()
        if self.java.refs().containsKey(branch):
            manage = manage.removeBranch(branch)
        try:
            manage.createBranch(branch, snapshot_id).commit()
        except Py4JJavaError as error:
            if kind(error) == _OVERTAKEN:
                raise self.overtaken() from error
            raise

    def drop_branch(self, branch: str) -> None:
        """Remove a branch; nothing happens where there is none. Where another run commits at the same time it stays,
        and maintenance removes it."""
        self.java.refresh()
        if self.java.refs().containsKey(branch):
            try:
                self.java.manageSnapshots().removeBranch(branch).commit()
            except Py4JJavaError as error:
                if kind(error) != _OVERTAKEN:
                    raise

    def add_tag(self, tag: str, snapshot_id: int) -> None:
        """Create a tag of a snapshot. Py4JJavaError where a tag of that name exists."""
        self.java.refresh()
        self.java.manageSnapshots().createTag(tag, snapshot_id).commit()

    def remove_tag(self, tag: str) -> None:
        """Remove a tag; nothing happens where there is none."""
        self.java.refresh()
        if self.java.refs().containsKey(tag):
            self.java.manageSnapshots().removeTag(tag).commit()

    def publish_branch(self, branch: str) -> None:
        """Move main to the branch and remove the branch. Raises StaleRunError where main has changed."""
        self.java.refresh()
        try:
            self.java.manageSnapshots().fastForwardBranch("main", branch).removeBranch(branch).commit()
        except (Py4JJavaError, IllegalArgumentException) as error:  # main has changed during the commit, or before it
            raise self.overtaken() from error

    def overtaken(self, found: str = "a newer one") -> StaleRunError:
        """The error of a run when the table has changed since the run was planned."""
        return StaleRunError(
            str(self.java.name()),
            "the snapshot this run was planned from",
            found,
            "Another run published first, and nothing was written twice. Run again to continue from there.",
        )

    def commit(self, base: Any, fresh: Any, snapshot_id: int | None = None) -> None:
        """Replace the metadata `base` by `fresh`, in one try. Raises StaleRunError where the table has changed.
        After an error, the commit has succeeded if the table has the new `snapshot_id`.
        """
        try:
            self._swap(base, fresh)
        except Py4JJavaError as error:
            if snapshot_id is not None and self._is_in(snapshot_id):
                return
            if kind(error) == _OVERTAKEN:
                raise self.overtaken() from error
            raise

    def _swap(self, base: Any, fresh: Any) -> None:
        self.java.operations().commit(base, fresh)

    def _is_in(self, snapshot_id: int) -> bool:
        self.java.refresh()
        return bool(self.named("org.apache.iceberg.util.SnapshotUtil.isAncestorOf")(self.java, snapshot_id))

    def expire(self, branches: Sequence[str], snapshot_ids: Sequence[int], planned_on: str) -> bool:
        """Forget branches and snapshots; no file is removed. False where the table is not at `planned_on` any more."""
        base = self.java.operations().refresh()
        if str(base.metadataFileLocation()) != planned_on:
            return False
        builder = self._catalog.builder_from(base)
        for branch in branches:
            builder = builder.removeRef(branch)
        if snapshot_ids:
            builder = builder.removeSnapshots(self._catalog.set_of(snapshot_ids))
        try:
            self.commit(base, builder.build())
        except StaleRunError:
            return False
        return True

    def rename_partition_fields(self, names: Mapping[str, str]) -> None:
        """Rename partition fields in all specs that the table has or had, in one commit. Files and readers know a field
        by its id. Raises ConfigError where the catalog takes no such change, as over REST."""
        base = self.java.operations().refresh()
        metadata = json.loads(self.named("org.apache.iceberg.TableMetadataParser.toJson")(base))
        for field in (field for spec in metadata["partition-specs"] for field in spec["fields"]):
            field["name"] = names.get(field["name"], field["name"])
        self.commit(base, self.named("org.apache.iceberg.TableMetadataParser.fromJson")(json.dumps(metadata)))
        self.java.refresh()
        left = [field.name() for spec in self.java.specs().values() for field in spec.fields() if field.name() in names]
        if left:
            raise ConfigError(
                str(self.java.name()),
                "partition fields with other names than the source's columns",
                ", ".join(left),
                "This catalog cannot rename them. Drop this mirror in the catalog: the next run makes it again from "
                "its changelog, and its earlier snapshots are lost.",
            )

    def evolve(
        self,
        planned_on: Table,
        steps: Sequence[Callable[[Any, JvmCatalog], None]],
        properties: Mapping[str, str],
        summary: Mapping[str, str] | None = None,
    ) -> None:
        """Change the schema and the properties, and append a snapshot without files, in one commit.

        A catalog that receives changes and not the metadata they were made on (REST) compares only the replaced
        snapshot. Without a summary it may miss a property that another writer sets at the same moment.

        Args:
            planned_on: the table as the run has loaded it.
            steps: changes of columns (`SchemaStep`), which are called in order with the transaction and the catalog.
            summary: the properties of the snapshot; without it there is none.

        Raises:
            StaleRunError: the table has changed since `planned_on`.
        """
        transaction = self.java.newTransaction()
        base = transaction.startMetadata()
        if not _is(base, planned_on):
            raise self.overtaken()
        for step in steps:
            step(transaction, self._catalog)
        update = transaction.updateProperties()
        for key, value in properties.items():
            update = update.set(key, value)
        update.commit()
        if summary is not None:
            append = transaction.newFastAppend()
            for key, value in summary.items():
                append = append.set(key, value)
            append.commit()
        # The transaction's own commit would apply all changes again on top of another run's commit.
        fresh = transaction.currentMetadata()
        self.commit(base, fresh, None if summary is None else fresh.currentSnapshot().snapshotId())


def _is(base: Any, planned_on: Table) -> bool:
    """Whether metadata have the snapshot, schema and properties of this project that a table had when it was read."""
    properties = base.properties()
    return (
        base.currentSnapshot().snapshotId() == planned_on.metadata.current_snapshot_id
        and base.currentSchemaId() == planned_on.schema().schema_id
        and all(properties.get(name) == planned_on.properties.get(name) for name in (VERSION, COLUMNS, REPLAYED))
    )


def kind(error: Py4JJavaError) -> str:
    """The class name of a Java exception."""
    return str(error.java_exception.getClass().getSimpleName())


def _schema_json(columns: Sequence[LakeColumn], key: Sequence[str]) -> dict[str, Any]:
    fields = [
        {"id": number, "name": c.name, "required": c.required, "type": json.loads(type_json(c.type, 100_000 + number))}
        for number, c in enumerate(columns, start=1)
    ]
    identifier = [n for n, c in enumerate(columns, start=1) if c.name in key and can_identify(c.type)]
    return {"type": "struct", "schema-id": 0, "identifier-field-ids": identifier, "fields": fields}


_SOURCE: Final = "RowChanges.java"
_CLASS: Final = "ticdc_assets.RowChanges"
_LOCK: Final = threading.Lock()
_MADE: Final[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()


def row_changes(jvm: Any, of_iceberg: Any) -> Any:
    """This project's Java object for changes of rows, one in each JVM. `of_iceberg` is any object of Iceberg.

    A call from Python takes longer than all of Java's work for a file. Janino, with which Spark compiles queries,
    compiles the class.
    """
    with _LOCK:
        if jvm not in _MADE:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(of_iceberg.getClass().getClassLoader())
            compiler.cook(files(__package__).joinpath(_SOURCE).read_text())
            _MADE[jvm] = compiler.getClassLoader().loadClass(_CLASS).newInstance()
        return _MADE[jvm]


# Iceberg's Java objects of data and delete files, and their JSON form.
#
# py4j takes longer for one call than Java does for all the rest of a file, so there are as few calls as possible.


def planned_files(table: JvmTable, snapshot_id: int) -> list[tuple[Any, dict[str, Any]]]:
    """For each data file of a snapshot, the Java task that reads it with its deletes, and the same as JSON: the members
    `data-file` and, where there are deletes, `delete-files`."""
    planned = table.java.newScan().useSnapshot(snapshot_id).planFiles()
    try:
        tasks = table.named("org.apache.iceberg.relocated.com.google.common.collect.Lists.newArrayList")(planned)
        to_json = table.named("org.apache.iceberg.ScanTaskParser.toJson")
        return [(task, orjson.loads(to_json(task))) for task in (tasks.get(n) for n in range(tasks.size()))]
    finally:
        planned.close()


def content_files(table: JvmTable) -> Callable[[Mapping[str, Any]], Any]:
    """A function that makes a content file of the table's present spec from its JSON form. From a footer Java would
    make one slower than all the rest of a small commit: it reads all of Hadoop's settings first."""
    mapper, spec = table.named("org.apache.iceberg.util.JsonUtil.mapper")(), table.java.spec()
    parse = table.named("org.apache.iceberg.ContentFileParser.fromJson")
    return lambda shown: parse(mapper.readTree(orjson.dumps(shown).decode()), spec)
