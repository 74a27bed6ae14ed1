"""What a lake's tables hold: snapshots, manifests, files, and the size of their metadata."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from pyiceberg.table import Table

from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.maintenance import each_table
from ticdc_assets.tables.maintenance.compaction import counts_of


def print_tables(lake: Lake) -> None:
    """Print a line for each table of a lake whose warehouse is a folder."""
    names = ("snapshots", "manifests", "data", "deletes", "json kB", "in metadata", "in data")
    print(f"{'':32}" + "".join(f"{name:>12}" for name in names))
    for table in each_table(lake):
        print(f"{'.'.join(table.name()):32}" + "".join(f"{figure:>12,}" for figure in _figures(table)), flush=True)


def _figures(table: Table) -> tuple[int, ...]:
    snapshot, files = table.current_snapshot(), counts_of(table)
    folder = _path(table.location())
    return (
        len(table.metadata.snapshots),
        len(snapshot.manifests(table.io)) if snapshot is not None else 0,
        files.data,
        files.deletes,
        _path(table.metadata_location).stat().st_size // 1000,
        _count(folder / "metadata"),
        _count(folder / "data"),
    )


def _path(uri: str) -> Path:
    return Path(urlsplit(uri).path)


def _count(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))
