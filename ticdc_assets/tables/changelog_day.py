"""Replaces the rows of one commit day in a changelog: the files of its partition, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Final

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from ticdc_assets.errors import ConfigError, StaleRunError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.tables.changelog import COMMIT_DAY, COMMIT_TRIES_MAX
from ticdc_assets.tables.iceberg.commits import NOT_KNOWN, refreshed, transaction
from ticdc_assets.tables.progress import CHANGEFEED

DayFiles = dict[str, "DataFile"]
"""The data files of one day, by URI."""

_EPOCH: Final = date(1970, 1, 1)


def files_of(table: Table, day: date) -> DayFiles:
    """The files with the changes of a UTC day.

    Raises:
        ConfigError: the table is not partitioned by commit day only, so a file may have rows of several days.
    """
    fields = {field.name for spec in table.specs().values() for field in spec.fields}
    if fields != {COMMIT_DAY}:
        found = ", ".join(sorted(fields)) or "no partitions"
        raise ConfigError(".".join(table.name()), f"partitions by {COMMIT_DAY}", found, "Rebuild the whole table.")
    number = (day - _EPOCH) // timedelta(days=1)
    files = (task.file for task in table.scan().plan_files())
    return {file.file_path: file for file in files if file.partition[0] == number}


def require_unchanged(table: Table, day: date, old: DayFiles) -> None:
    """Raise StaleRunError where the day has other files than `old` now."""
    if files_of(refreshed(table), day).keys() != old.keys():
        raise _overtaken(table, day)


def replace_day(table: Table, day: date, old: DayFiles, fresh: DayFiles, properties: Mapping[str, str]) -> Table:
    """Replace the files `old` of a day by `fresh`, and set properties, in one commit. Rows of other days that runs
    append meanwhile stay.

    Raises:
        StaleRunError: the day has other files than `old`, as a run or maintenance has changed it.
    """
    for _ in range(COMMIT_TRIES_MAX):
        table = refreshed(table)
        found = files_of(table, day)
        if found.keys() == fresh.keys():
            return table  # our own commit succeeded although its response was lost
        if found.keys() != old.keys():
            break
        hit(Failpoint.BEFORE_CHANGELOG_COMMIT)
        try:
            with transaction(table) as tx:
                tx.set_properties(dict(properties))
                owner = {CHANGEFEED: table.properties[CHANGEFEED]}
                with tx.update_snapshot(snapshot_properties=owner).overwrite() as overwrite:
                    for file in found.values():
                        overwrite.delete_data_file(file)
                    for file in fresh.values():
                        overwrite.append_data_file(file)
        except NOT_KNOWN:
            continue
        return refreshed(table)
    raise _overtaken(table, day)


def _overtaken(table: Table, day: date) -> StaleRunError:
    return StaleRunError(
        ".".join(table.name()),
        f"the files of {day} that this rebuild was planned on",
        "others",
        "A run or maintenance changed the day first, and nothing was replaced; rebuild the day again.",
    )
