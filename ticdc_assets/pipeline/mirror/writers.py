"""The writers of mirrors with the options of their changefeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ticdc_assets.tables.mirror.writer import MirrorOptions, MirrorWriter

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


def writer_of(
    lake: Lake, run_id: str, jvm: JvmCatalog, source_table: SourceTable, identifier: Identifier
) -> MirrorWriter:
    """The writer of the source table's mirror under this name."""
    options, zone = options_of(lake, source_table), lake.changefeed.time_zone
    of = (lake.catalog, jvm, identifier, lake.changefeed.name, run_id, options, lake.mirror_files)
    return MirrorWriter(*of, zone, lake.control.namespace)


def options_of(lake: Lake, source_table: SourceTable) -> MirrorOptions:
    """The configured options of the source table's mirror."""
    mirror = lake.changefeed.mirror
    return MirrorOptions(mirror.format_version, mirror.partition_of(*source_table.name))
