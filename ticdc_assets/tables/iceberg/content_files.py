"""Iceberg's Java objects of data and delete files, and their JSON form.

py4j takes longer for one call than Java does for all the rest of a file, so there are as few calls as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from ticdc_assets.tables.iceberg.jvm import JvmTable


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
