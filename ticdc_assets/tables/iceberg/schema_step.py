"""Changes of a table's columns and of its partition spec, as calls of Iceberg's Java API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING, Any

from ticdc_assets.changes.layout import LakeColumn
from ticdc_assets.names import OWN_PREFIX
from ticdc_assets.names.folding import fold
from ticdc_assets.tables.iceberg.types import type_json

if TYPE_CHECKING:
    import pyarrow as pa

    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


class SchemaStep:
    """One `updateSchema` inside a transaction; steps that give a name free come before those that take it."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, tuple[Any, ...]]] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, column: LakeColumn) -> None:
        """Add an optional column at the end."""
        self._calls.append(("add", (column.name, type_json(column.type))))

    def rename(self, old: str, new: str) -> None:
        """Rename a column. Its field id stays."""
        self._calls.append(("renameColumn", (old, new)))

    def retype(self, name: str, column: LakeColumn) -> None:
        """Give a column a wider type, one to which Iceberg can promote the present one."""
        self._calls.append(("retype", (name, type_json(column.type))))

    def delete(self, name: str) -> None:
        """Delete a column. Data files keep its values."""
        self._calls.append(("deleteColumn", (name,)))

    def require(self, name: str) -> None:
        """Let a column take no NULL. Existing rows are not read: the caller knows that they have none."""
        self._calls.append(("requireColumn", (name,)))

    def relax(self, name: str) -> None:
        """Let a column take NULL."""
        self._calls.append(("makeColumnOptional", (name,)))

    def move_first(self, name: str) -> None:
        """Move a column to the first position."""
        self._calls.append(("moveFirst", (name,)))

    def move_after(self, name: str, before: str) -> None:
        """Move a column to the position after the column `before`."""
        self._calls.append(("moveAfter", (name, before)))

    def identify_by(self, names: Sequence[str]) -> None:
        """Replace the identifier fields, which are the key of a mirror."""
        self._calls.append(("identify", (tuple(names),)))

    def __call__(self, transaction: Any, catalog: JvmCatalog) -> None:
        update = transaction.updateSchema().allowIncompatibleChanges()
        for method, arguments in self._calls:
            if method == "add":
                update = update.addColumn(None, arguments[0], catalog.type_from_json(arguments[1]))
            elif method == "retype":
                update = update.updateColumn(arguments[0], catalog.type_from_json(arguments[1]).asPrimitiveType())
            elif method == "identify":
                update = update.setIdentifierFields(catalog.set_of(arguments[0]))
            else:
                update = getattr(update, method)(*arguments)
        update.commit()


def order_columns(step: SchemaStep, names: Sequence[str]) -> None:
    """Put the columns into this order."""
    step.move_first(names[0])
    for before, name in pairwise(names):
        step.move_after(name, before)


def change_column(column: LakeColumn, name: str, arrow: pa.DataType, free: SchemaStep, take: SchemaStep) -> None:
    """Rename and retype a column, which now has the name `name` and the type `arrow`, to those of `column`.

    The step `free` moves it away from its name, and the later step `take` gives it the new one.
    """
    if arrow != column.type:
        free.retype(name, column)
    if name != column.name:
        # Through an unused name, so that two columns may swap names.
        free.rename(name, f"{column.name}__moving")
        take.rename(f"{column.name}__moving", column.name)


@dataclass(frozen=True, slots=True)
class SpecField:
    """A field of a partition spec: its own name, Iceberg's transform, the transform's argument, and its column."""

    name: str
    transform: str
    argument: int | None
    column: str

    def term(self, catalog: JvmCatalog) -> Any:
        """The transform of the column in Java."""
        make = catalog.named(
            f"org.apache.iceberg.expressions.Expressions.{'ref' if self.transform == 'identity' else self.transform}"
        )
        return make(self.column) if self.argument is None else make(self.column, self.argument)


@dataclass(frozen=True, slots=True)
class SpecStep:
    """One `updateSpec` inside a transaction: the names of fields to remove, and fields to add."""

    remove: tuple[str, ...] = ()
    add: tuple[SpecField, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.remove or self.add)

    def __call__(self, transaction: Any, catalog: JvmCatalog) -> None:
        update = transaction.updateSpec()
        for name in self.remove:
            update = update.removeField(name)
        for field in self.add:
            update = update.addField(field.name, field.term(catalog))
        update.commit()


def free_name(text: str, fields: Iterable[str]) -> str:
    """A name for a partition field that begins like `text`, and that no other field and no column has: columns of the
    source never begin with the prefix."""
    taken = {fold(name) for name in fields}
    names = chain([OWN_PREFIX + text], (f"{OWN_PREFIX}{text}_{number}" for number in count(2)))
    return next(name for name in names if fold(name) not in taken)
