"""Inspects a capture, a bucket or a topic by its bytes, without a configuration and without showing row values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ticdc_assets.errors import SourceError
from ticdc_assets.sources.capture import messages as captured_messages
from ticdc_assets.sources.filesystem import Root, open_root
from ticdc_assets.sources.inspection.messages import inspect_messages
from ticdc_assets.sources.inspection.report import Bounds, Inspection
from ticdc_assets.sources.inspection.settings import add_store_options
from ticdc_assets.sources.inspection.storage import inspect_storage, is_storage
from ticdc_assets.sources.inspection.topics import inspect_kafka, is_kafka, source_of_uri, unread_parameters
from ticdc_assets.sources.inspection.traits import MessageOrigin
from ticdc_assets.sources.storage.paths import METADATA
from ticdc_assets.work_progress import OnProgress, no_progress

__all__ = ["Bounds", "Inspection", "inspect_kafka", "inspect_source"]

_LOOKED_BELOW: Final = 100
"""Folders per level that are checked for `metadata`; a bucket has few folders above its sinks' roots."""
_LEVELS_BELOW: Final = 2

_CAPTURES: Final = "messages.jsonl, <topic>-<partition>.bin"


def inspect_source(place: str, bounds: Bounds, on_progress: OnProgress = no_progress) -> Inspection:
    """Inspect a file, a folder, or the URI of a bucket or a topic. SourceError if nothing in it comes from TiCDC."""
    if is_kafka(place):
        found = inspect_kafka(source_of_uri(place), None, bounds, on_progress)
        if unread := unread_parameters(place):
            found.note(unread)
        return found
    if "://" in place:
        return _stored(place, bounds, on_progress)
    path = Path(place).expanduser()
    if not path.exists():
        raise SourceError(place, "a file or folder", "nothing of that name", "Check the path.")
    if path.is_file():
        return inspect_messages(_capture(path, [path]), bounds, on_progress)
    files = _captures(path)
    if files:
        return inspect_messages(_capture(path, files), bounds, on_progress)
    return _stored(str(path.resolve()), bounds, on_progress)


def _capture(place: Path, files: Sequence[Path]) -> MessageOrigin:
    folder = place if place.is_dir() else place.parent
    return MessageOrigin(str(place), [partial(captured_messages, file) for file in files], folder)


def _captures(folder: Path) -> list[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError as error:
        kind = error.strerror or type(error).__name__
        advice = "Let this process's user read it." if isinstance(error, PermissionError) else "Check the path."
        raise SourceError(str(folder), "a file or folder that can be read", kind, advice) from None
    return [file for file in found if file.is_file() and (file.suffix == ".bin" or file.name == "messages.jsonl")]


def _stored(place: str, bounds: Bounds, on_progress: OnProgress) -> Inspection:
    root = open_root(place)
    inner = _roots_below(root)
    if inner:
        found, advice = f"it below, in {', '.join(inner[:3])}", f"Name {root.where(inner[0])} instead."
        raise SourceError(root.name, "the root of a storage sink, with its `metadata`", found, advice)
    if not is_storage(root):
        expected = f"{_CAPTURES}, or a storage sink's `metadata` and schema files"
        advice = "Name the capture itself, or the folder that the changefeed's sink URI names."
        raise SourceError(root.name, expected, "none of them", advice)
    inspection = inspect_storage(root, bounds, on_progress)
    add_store_options(inspection, place)
    return inspection


def _roots_below(root: Root) -> list[str]:
    """The nearest folders below this one that are roots of a storage sink."""
    if root.sizes([METADATA])[METADATA] is not None:
        return []
    folders = [""]
    for _ in range(_LEVELS_BELOW):
        entries = ((folder, entry) for folder in folders for entry in root.list_dir(folder))
        folders = [f"{folder}/{e.name}".lstrip("/") for folder, e in entries if e.is_dir][:_LOOKED_BELOW]
        sizes = root.sizes([f"{folder}/{METADATA}" for folder in folders])
        found = [folder for folder in folders if sizes[f"{folder}/{METADATA}"] is not None]
        if found:
            return found
    return []
