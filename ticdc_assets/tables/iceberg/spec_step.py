"""Changes of a table's partition spec, as calls of Iceberg's Java API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from ticdc_assets.names import OWN_PREFIX
from ticdc_assets.names.folding import fold

if TYPE_CHECKING:
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


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
