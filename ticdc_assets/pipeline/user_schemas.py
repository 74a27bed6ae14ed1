"""The user's schemas for tables whose stream carries too little: `schema_files` and `keys`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from ticdc_assets.errors import ConfigError, SchemaError
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import created_tables
from ticdc_assets.schema.evolution.evolve import create
from ticdc_assets.schema.history.fold.events import Known
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.schema.model import TableSchema

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed

_DUMPLING: Final = re.compile(r"(?P<schema>[^.]+)\.(?P<table>.+)-schema\.sql")


def known_of(changefeed: Changefeed) -> Known:
    """The config's `schema_files`, `keys` and `column-selectors`. Raises ConfigError for a file of which no table's
    name is known."""
    found: dict[SourceName, tuple[Path, TableSchema]] = {}
    faults: dict[SourceName, str] = {}
    for path, name, table in _tables(changefeed.schemas.files):
        if isinstance(table, SchemaError):
            faults[name] = f"schema_files, {path.name}: {table}"
            continue
        other, known = found.setdefault(name, (path, table))
        if table != known:
            of_both = f"those of {other} and of {path}" if other != path else f"two in {path}"
            advice = "Keep the file that describes the table as it was when the changefeed began."
            expected = f"one definition of {'.'.join(name)}"
            raise ConfigError("schema_files", expected, f"different ones: {of_both}", advice)
    selectors = changefeed.sink.content.column_selectors
    schemas = {name: table for name, (_, table) in found.items()}
    return Known(schemas, changefeed.mirror.key_of, selectors.leaves_out, faults)


def _tables(paths: Iterable[Path]) -> Iterator[tuple[Path, SourceName, TableSchema | SchemaError]]:
    for path in paths:
        dumped = _DUMPLING.fullmatch(path.name)
        schema = unquote(dumped["schema"]) if dumped else path.name.partition(".")[0]
        try:
            for name, statement in created_tables(path.read_text(encoding="utf-8"), schema):
                yield path, fold_name(*name), statement if isinstance(statement, SchemaError) else _created(statement)
        except (OSError, UnicodeDecodeError, SchemaError) as error:
            if dumped and isinstance(error, SchemaError):
                yield path, fold_name(schema, unquote(dumped["table"])), error
                continue
            raise ConfigError(
                f"schema_files, {path.name}",
                "CREATE TABLE statements (SHOW CREATE TABLE, Dumpling's *-schema.sql)",
                str(error) if isinstance(error, SchemaError) else type(error).__name__,
                "Dump the schemas again, or remove the file from `schema_files`.",
            ) from error


def _created(statement: ddl.CreateTable) -> TableSchema | SchemaError:
    try:
        return create(statement).table
    except SchemaError as error:
        return error
