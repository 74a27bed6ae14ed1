"""The sources of changes by configuration. A new source is one folder and one line here.

A source's module is imported on use: the imports of the other sources take longer than a scan.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.config import CaptureSource, Changefeed, KafkaSource, MessagesSource, StorageSource
from ticdc_assets.errors import ConfigError

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.source import ChangeSource
    from ticdc_assets.pipeline.source_state import SourceState


@dataclass(frozen=True, slots=True)
class SourceKind:
    """How one kind of source is read.

    changes: the class that implements `ChangeSource`, constructed with (lake, until).
    state: a function from the lake to a `SourceState`, for sensors.
    replay: the class that implements `Replay`, constructed with a `ReplayContext` and a folder for temporary files.
    reads_files: whether its records are in files that an index names.
    is_landed: whether a run copies its messages into the lake before it scans them.
    """

    changes: tuple[str, str]
    state: tuple[str, str]
    replay: tuple[str, str]
    reads_files: bool = False
    is_landed: bool = False


_STREAM: Final = ("ticdc_assets.pipeline.stream.source", "StreamChanges")
_MESSAGE_REPLAY: Final = ("ticdc_assets.pipeline.replay.messages", "MessageReplay")

SOURCES: Final[dict[type, SourceKind]] = {
    StorageSource: SourceKind(
        changes=("ticdc_assets.pipeline.storage.source", "StorageChanges"),
        state=("ticdc_assets.pipeline.source_state", "of_bucket"),
        replay=("ticdc_assets.pipeline.replay.storage", "StorageReplay"),
        reads_files=True,
    ),
    CaptureSource: SourceKind(_STREAM, ("ticdc_assets.pipeline.source_state", "of_capture"), _MESSAGE_REPLAY),
    MessagesSource: SourceKind(_STREAM, ("ticdc_assets.pipeline.landing.lag", "of_messages"), _MESSAGE_REPLAY),
    KafkaSource: SourceKind(
        _STREAM, ("ticdc_assets.pipeline.landing.lag", "lag_of_topics"), _MESSAGE_REPLAY, is_landed=True
    ),
}
"""By type of `source` in the configuration: how it is read. Each entry names a module and an attribute."""


def source_of(lake: Lake, until: int | None = None) -> ChangeSource[Any]:
    """The source of the changefeed's changes, up to the TSO `until` where given.

    Raises:
        ConfigError: `until` is given, and rows have no TSO to compare with it.
    """
    if until is not None and lake.by_arrival:
        found = "a stream without commit_ts, which is read in the order of arrival"
        advice = "Run it without --until; in Dagster, without `until`."
        raise ConfigError(
            f"changefeed {lake.changefeed.name}", "a stream with commit_ts, which can stop at a TSO", found, advice
        )
    changes: type[ChangeSource[Any]] = _imported(SOURCES[type(lake.changefeed.source)].changes)
    return changes(lake, until)  # type: ignore[call-arg]  # a protocol declares no constructor


def state_of_source(lake: Lake) -> SourceState:
    """The state of the changefeed's source for a sensor. Raises SourceError where it cannot be read."""
    found: SourceState = _imported(SOURCES[type(lake.changefeed.source)].state)(lake)
    return found


def replay_of(lake: Lake) -> Any:
    """The class that decodes quarantined records of the changefeed's source again."""
    return _imported(SOURCES[type(lake.changefeed.source)].replay)


def reads_files(changefeed: Changefeed) -> bool:
    """Whether the changefeed's records are in files that an index names."""
    return SOURCES[type(changefeed.source)].reads_files


def is_landed(changefeed: Changefeed) -> bool:
    """Whether a run copies the changefeed's messages into the lake before it scans them."""
    return SOURCES[type(changefeed.source)].is_landed


def _imported(entry: tuple[str, str]) -> Any:
    module, name = entry
    return getattr(import_module(module), name)
