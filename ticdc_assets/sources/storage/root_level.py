"""A configured folder that is one level above or below the folder that TiCDC writes to."""

from __future__ import annotations

from itertools import islice
from typing import Final

from ticdc_assets.errors import NotYetError, SchemaError, SourceError
from ticdc_assets.protocols.storage.schema_file import parse_schema_file
from ticdc_assets.sources.filesystem import Root
from ticdc_assets.sources.storage.folders import can_be_followed, listing
from ticdc_assets.sources.storage.paths import META, METADATA, go_path_join, schema_name

SCHEMA_BYTES_MAX: Final = 16 << 20
"""A schema with 4096 columns and long defaults is far smaller."""

_FOLDERS_MAX: Final = 20
"""Folders below the root that are looked into."""


def check_root_level(root: Root) -> None:
    """For a folder without TiCDC's file `metadata`.

    Raises:
        SourceError: a folder below it has the file, or the folders below it are tables, not databases.
    """
    folders = (entry.name for entry in listing(root, "") if entry.is_dir and can_be_followed(entry.name))
    for name in islice(folders, _FOLDERS_MAX):
        if any(entry.name == METADATA and not entry.is_dir for entry in listing(root, name)):
            advice = f"Set the path in the config to the folder {name}."
            raise SourceError(
                root.where(METADATA), "TiCDC's file with its checkpoint", f"it one level below, in {name}", advice
            )
        database = _database_of_table(root, name)
        if database is not None:
            advice = (
                f"Set the path in the config to the folder that holds the folder {database} and the file {METADATA}."
            )
            raise SourceError(
                root.where(name), "the folder of a database", f"a table of the database {database}", advice
            )


def _database_of_table(root: Root, folder: str) -> str | None:
    """The database of the table whose schema files are in this folder, if TiCDC would write them one level deeper."""
    files = [entry.name for entry in listing(root, f"{folder}/{META}") if schema_name(entry.name)]
    for path in (f"{folder}/{META}/{name}" for name in files[:1]):
        try:
            file = parse_schema_file(root.read_bytes(path, SCHEMA_BYTES_MAX), path)
        except (NotYetError, SchemaError):
            continue
        if file.table and go_path_join(file.schema, file.table) == go_path_join(file.schema, folder):
            return file.schema
    return None
