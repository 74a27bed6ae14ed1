"""A table as a DDL job of TiDB describes it: what TiCDC's encoders make schema files and Simple's schemas of."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ticdc_assets_tests.sources.storage.bucket import schema_document

_NOT_NULL, _PRIMARY, _UNSIGNED, _ZEROFILL = 1, 2, 32, 64
_BIT: Final = 16
_TYPES: Final = {
    0: "unspecified", 1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 7: "timestamp", 8: "bigint",
    9: "mediumint", 10: "date", 11: "time", 12: "datetime", 13: "year", 15: "varchar", _BIT: "bit", 225: "vector",
    245: "json", 246: "decimal", 247: "enum", 248: "set", 249: "tinytext", 250: "mediumtext", 251: "longtext",
    252: "text", 253: "varchar", 254: "char",
}  # fmt: skip
_BINARIES: Final = {249: "tinyblob", 250: "mediumblob", 251: "longblob", 252: "blob", 253: "varbinary", 15: "varbinary",
                    254: "binary"}  # fmt: skip
_LENGTHS: Final = {4: 12, 5: 22, 13: 4, 246: 10}
"""Of types whose length TiDB leaves open."""
_SIZED: Final = {1, 2, 3, 8, 9, 13, 15, _BIT, 249, 250, 251, 252, 253, 254}
_FRACTIONAL: Final = {7, 11, 12}


def recorded(info: Mapping[str, Any]) -> dict[str, Any]:
    """What a recording keeps of a job's TableInfo."""
    return {
        "id": info["id"],
        "name": info["name"]["O"],
        "version": info["update_timestamp"],
        "columns": [_kept(column) for column in info["cols"] or ()],
        "indexes": [
            [
                index["idx_name"]["O"],
                index["is_unique"],
                index["is_primary"],
                [c["name"]["O"] for c in index["idx_cols"]],
            ]
            for index in info["index_info"] or ()
        ],
        "handle": info["pk_is_handle"],
    }


def _kept(column: Mapping[str, Any]) -> dict[str, Any]:
    of = column["type"]
    virtual = bool(column["generated_expr_string"]) and not column["generated_stored"]
    kept = {"id": column["id"], "name": column["name"]["O"], "type": of["Tp"], "flag": of["Flag"], "length": of["Flen"]}
    others = {
        "scale": of["Decimal"], "charset": of["Charset"], "collate": of["Collate"], "elements": of["Elems"],
        "default": column["default"], "bits": column["default_bit"], "virtual": virtual or None,
    }  # fmt: skip
    return kept | {name: value for name, value in others.items() if value is not None}


@dataclass(frozen=True)
class ColumnInfo:
    """One column; `default` is the text that TiCDC sends, of BIT the bytes."""

    id: int
    name: str
    type: int
    flag: int
    length: int
    scale: int
    charset: str = ""
    collate: str = ""
    elements: tuple[str, ...] = ()
    default: str | bytes | None = None
    virtual: bool = False

    @property
    def kind(self) -> str:
        return _BINARIES.get(self.type, _TYPES[self.type]) if self.charset == "binary" else _TYPES[self.type]

    @property
    def nullable(self) -> bool:
        return not self.flag & _NOT_NULL

    def in_schema_file(self, with_id: bool) -> dict[str, Any]:
        """The object of a storage sink's schema file."""
        length = _LENGTHS.get(self.type, 0) if self.length < 0 else self.length
        has_scale = self.type == 246 or (self.type in {*_FRACTIONAL, 4, 5} and self.scale > 0)
        default = self.default.decode(errors="replace") if isinstance(self.default, bytes) else self.default
        members = {
            "ColumnId": str(self.id) if with_id else None,
            "ColumnName": self.name,
            "ColumnType": self.kind.upper() + (" UNSIGNED" if self.flag & _UNSIGNED else ""),
            "ColumnDefault": default,
            "ColumnPrecision": str(length) if self.type in {*_SIZED, 4, 5, 246} else None,
            "ColumnScale": str(max(self.scale, 0)) if has_scale else None,
            "ColumnNullable": None if self.nullable else "false",
            "ColumnIsPk": "true" if self.flag & _PRIMARY else None,
            "ColumnElems": [*self.elements] or None,
        }
        return {name: value for name, value in members.items() if value is not None}

    def in_simple(self) -> dict[str, Any]:
        """The object of a Simple message's tableSchema."""
        of: dict[str, Any] = {"mysqlType": self.kind, "charset": self.charset, "collate": self.collate}
        length = _LENGTHS.get(self.type, 0) if self.length < 0 else self.length
        others = {
            "length": length, "decimal": max(self.scale, 0), "unsigned": bool(self.flag & _UNSIGNED),
            "zerofill": bool(self.flag & _ZEROFILL), "elements": [*self.elements],
        }  # fmt: skip
        of |= {name: value for name, value in others.items() if value}
        default = int.from_bytes(self.default, "big") if isinstance(self.default, bytes) else self.default
        return {"name": self.name, "dataType": of, "nullable": self.nullable, "default": default}


@dataclass(frozen=True)
class TableInfo:
    """A table after a statement. Its name is that at the end of the statement, also where it had others meanwhile."""

    id: int
    name: str
    version: int
    columns: tuple[ColumnInfo, ...]
    indexes: tuple[tuple[str, bool, bool, tuple[str, ...]], ...]
    """Name, whether it is unique, and primary, and its columns."""
    has_handle: bool
    """Whether the primary key is the row's handle: a clustered integer, of which there is no index."""

    @staticmethod
    def of(kept: Mapping[str, Any]) -> TableInfo:
        indexes = tuple((name, unique, primary, tuple(names)) for name, unique, primary, names in kept["indexes"])
        columns = tuple(map(_column, kept["columns"]))
        return TableInfo(kept["id"], kept["name"], kept["version"], columns, indexes, kept["handle"])

    def schema_file(self, schema: str, version: int, query: str, type_: int, *, with_ids: bool = False) -> bytes:
        columns = [column.in_schema_file(with_ids) for column in self.columns]
        return schema_document(schema, self.name, version, columns, query, type_)

    def in_simple(self, schema: str) -> dict[str, Any]:
        """A Simple message's tableSchema."""
        return {
            "schema": schema,
            "table": self.name,
            "tableID": self.id,
            "version": self.version,
            "columns": [column.in_simple() for column in self.columns],
            "indexes": [*self._indexes()],
        }

    def _indexes(self) -> Iterator[dict[str, Any]]:
        nullable = {column.name for column in self.columns if column.nullable}
        for name, unique, primary, names in self.indexes:
            yield _index(name, unique, primary, bool(nullable & {*names}), names)
        if self.has_handle:
            yield _index("primary", True, True, False, (c.name for c in self.columns if c.flag & _PRIMARY))
        elif not any(primary for _, _, primary, _ in self.indexes):
            usable = [names for _, unique, _, names in self.indexes if unique and not nullable & {*names}]
            yield from (_index("primary", True, True, False, names) for names in usable[:1])


def _column(kept: Mapping[str, Any]) -> ColumnInfo:
    members = {**kept, "elements": tuple(kept.get("elements", ()))}
    bits = members.pop("bits", None)
    if bits is not None:
        members["default"] = b64decode(bits)
    return ColumnInfo(**members)


def _index(name: str, unique: bool, primary: bool, nullable: bool, columns: Iterable[str]) -> dict[str, Any]:
    return {"name": name, "unique": unique, "primary": primary, "nullable": nullable, "columns": [*columns]}
