"""`ticdc-assets inspect CONFIG`: compares the config of each changefeed with its source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ticdc_assets.commands.output.terminal import Terminal
from ticdc_assets.config import CaptureSource, KafkaSource, MessagesSource, StorageSource, load
from ticdc_assets.errors import ConfigError, TicdcAssetsError
from ticdc_assets.plurals import counted
from ticdc_assets.sources.inspection import Bounds, Inspection, inspect_kafka, inspect_source
from ticdc_assets.sources.inspection.comparison import Difference, option_differences
from ticdc_assets.work_progress import OnProgress

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of one changefeed. `problem`: its source could not be read."""

    changefeed: str
    missing: Sequence[Difference] = ()
    warnings: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    problem: str = ""

    @property
    def is_well(self) -> bool:
        return not (self.missing or self.faults or self.problem)

    def as_object(self) -> dict[str, Any]:
        """The whole comparison as JSON values."""
        missing = [
            {"option": d.option, "path": d.path, "seen": d.seen, "configured": d.configured} for d in self.missing
        ]
        return {
            "changefeed": self.changefeed,
            "missing": missing,
            "warnings": list(self.warnings),
            "problems": [*self.faults, *filter(None, [self.problem])],
        }


def is_config(place: str) -> bool:
    """Whether this is the path of a config file and not a source."""
    return "://" not in place and Path(place).suffix in (".yaml", ".yml")


def inspect_config(place: str, everything: bool, as_json: bool) -> int:
    """Returns the exit code: 1 where a config lacks something or a source has faults."""
    terminal, bounds = Terminal(), Bounds(None, None) if everything else Bounds()
    compared = []
    for changefeed in load(Path(place), os.environ, "Check the path.").changefeeds:
        with terminal.working(f"looking into the source of {changefeed.name}"):
            compared.append(compared_with_source(changefeed, bounds, terminal.on_progress))
    if as_json:
        terminal.json([one.as_object() for one in compared])
    else:
        for one in compared:
            print_comparison(terminal, one)
    return 0 if all(one.is_well for one in compared) else 1


def compared_with_source(changefeed: Changefeed, bounds: Bounds, on_progress: OnProgress) -> Compared:
    """Read a bounded part of the changefeed's source. A source that cannot be read is the `problem` of the result."""
    try:
        found = _inspected(changefeed, bounds, on_progress)
    except TicdcAssetsError as error:
        return Compared(changefeed.name, warnings=changefeed.warnings, problem=str(error))
    faults = tuple(problem.sentence for problem in found.problems.values())
    return Compared(changefeed.name, option_differences(found, changefeed.sink), changefeed.warnings, faults)


def _inspected(changefeed: Changefeed, bounds: Bounds, on_progress: OnProgress) -> Inspection:
    match changefeed.source:
        case StorageSource(storage):
            return inspect_source(storage.uri, bounds, on_progress)
        case CaptureSource(path):
            return inspect_source(str(path), bounds, on_progress)
        case MessagesSource(other):
            found, advice = f"the messages that {other} has landed", f"Inspect {other}."
            raise ConfigError(f"changefeed {changefeed.name}", "a bucket, a capture or topics", found, advice)
        case KafkaSource():
            return inspect_kafka(changefeed.source, changefeed.schemas.registry, bounds, on_progress)


def print_comparison(terminal: Terminal, one: Compared) -> None:
    """Print what to correct, and the warnings."""
    sentences = [*(d.sentence for d in one.missing), *one.faults, *filter(None, [one.problem])]
    if one.is_well:
        verdict = "its configuration has what its source shows."
    else:
        verdict = f"{counted(len(sentences), 'thing')} to correct:"
    terminal.result(f"{one.changefeed}: {verdict}")
    for sentence in sentences:
        terminal.result(f"- {sentence}")
    for sentence in one.warnings:
        terminal.note(f"{one.changefeed}: {sentence}")
