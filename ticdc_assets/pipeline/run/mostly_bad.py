"""Refuses a run whose records are mostly bad: then the config is wrong, and not the records.

A quarantine is for single records. Records that a wrong option makes unreadable are sound, and are read by the next
run once the option is corrected. So such a run publishes nothing and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.sources import reads_files
from ticdc_assets.pipeline.tasks import FileState, TaskReport
from ticdc_assets.plurals import counted

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.source import Pending
    from ticdc_assets.tables.control.records import QuarantinedRecord

MOSTLY_BAD_MIN: Final = 10
"""Fewer bad records are never refused, except in a changefeed that has no change yet."""

SOUND_TIMES: Final = 2
"""Bad records are most of all if there are so many times as many as sound ones: two of three."""

FIRST_BAD_MIN: Final = 2
"""Before the first change of a changefeed, so many bad records and no sound one are refused."""

_OPTIONS: Final = {
    "csv": "`delimiter`, `quote`, `null`, `terminator`, `include-commit-ts`, `output-old-value`, "
    "`output-field-header`, `binary-encoding-method`",
    "canal-json": "`protocol`, `enable-tidb-extension`, `large-message-handle-compression`, `terminator`",
    "open-protocol": "`protocol`, `large-message-handle-compression`",
    "simple": "`protocol`, `encoding-format`, `large-message-handle-compression`",
    "avro": "`protocol`, `schema-registry`",
}
"""The options that make records unreadable where they differ from those of the changefeed."""


def require_mostly_sound(
    lake: Lake,
    pending: Pending,
    bad: Sequence[QuarantinedRecord],
    reports: Iterable[TaskReport],
    messages: int,
) -> None:
    """Raise ConfigError where most records of a run are bad. Records that were in quarantine before do not count, nor
    do those of topics of other producers, nor anything with another `on_bad_message` than `quarantine`.

    Args:
        bad: the records that the run would keep in quarantine.
        messages: the number of messages that the run reads, statements and watermarks included.
    """
    if not lake.changefeed.bad_input.refuses_mostly_bad or len(bad) < FIRST_BAD_MIN:
        return
    kept = {one.position for one in lake.control.ever_quarantined(with_raw=False)}
    ours = [one for one in bad if one.path.rpartition("/")[0] not in pending.foreign_topics]
    fresh, record = [one for one in ours if one.position not in kept], pending.record
    sound = messages - len({one.position for one in bad})
    if reads_files(lake.changefeed):
        sound = sum(file.rows for report in reports for file in report.files if file.state is FileState.READ)
    is_first = record is None or all(table.changelog_snapshot_id is None for table in record.tables)
    least = FIRST_BAD_MIN if is_first and not sound else MOSTLY_BAD_MIN
    if len(fresh) < least or len(fresh) < SOUND_TIMES * sound:
        return
    options = _OPTIONS.get(lake.changefeed.sink.protocol, "`protocol`")
    raise ConfigError(
        f"changefeed {lake.changefeed.name}",
        "records of the configured protocol and options",
        f"{len(fresh):,} of {counted(len(fresh) + sound, 'record')} that cannot be read",
        "So many are no accident: the config differs from that of the changefeed. Nothing was published or put into "
        f"quarantine. Compare `config` or `config_file` ({options}); `ticdc-assets inspect` with the config shows what "
        "differs. Correct it and run again. If the records themselves are bad, `on_bad_message: quarantine_all` takes "
        f"them into quarantine. The first one: {fresh[0].reason}",
    )
