"""Keys of a changefeed's configuration that look like a misspelt or misplaced key which decides how the stream is read.

TiCDC refuses unknown keys itself, but what is pasted here may be an edited copy; a changefeed read with the wrong
options gives wrong rows without any error, so such a key is worth a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from ticdc_assets.config.reading import nearest
from ticdc_assets.config.sink import STORAGE_OPTIONS

_CUTOFF: Final = 0.84

# TiCDC's own keys that resemble one which decides how the stream is read, and do not.
_LOOKALIKES: Final = frozenset(
    {
        "sink.column-selectors",
        "sink.enable-kafka-sink-v2",
        "sink.kafka-config.codec-config.avro-include-before-value",
        "scheduler.enable-table-monitor",
        "scheduler.enable-splittable-check",
        "enable-table-monitor",
        "enable-sync-point",
        "enable-old-value",
        "ignore-ineligible-table",
    }
)
_OTHER_PARAMETERS: Final = frozenset(
    {
        "avro-include-before-value",
        "output-row-key",
        "max-batch-size",
        "max-message-bytes",
        "kafka-version",
        "kafka-client-id",
        "replication-factor",
        "compression",
        "auto-create-topic",
        "required-acks",
        "worker-count",
        "flush-interval",
        "file-size",
        "transaction-atomicity",
        "debezium-include-start-ts",
        "simple-include-start-ts",
    }
)


def misspelt(config: Mapping[str, Any], known: Set[str]) -> Iterator[str]:
    """A warning for each such key; `known` are the paths of the keys that matter."""
    sections = {_section(path) for path in known} | {"sink", "sink.kafka-config"}
    homes = known | sections - {""}
    for path in _paths(config):
        if path in homes or path in _LOOKALIKES or _section(path) not in sections:
            continue
        meant = _misplaced(path, homes) or _near(path, homes)
        if meant:
            yield f"config.{path} is no key that decides how the stream is read; did you mean {meant}?"


def misspelt_query(query: Mapping[str, str], known: Set[str], known_in_config: Set[str]) -> Iterator[str]:
    """The same for parameters of the sink URI."""
    config_only = {_name(path): path for path in sorted(known_in_config)}
    for name in query:
        if name in known or name in _OTHER_PARAMETERS or name in STORAGE_OPTIONS:
            continue
        if name in config_only:
            yield f"TiCDC does not read {name} from sink_uri, so it has no effect; it belongs to {config_only[name]}"
        elif meant := nearest(name, known, _CUTOFF):
            yield f"parameter {name} of sink_uri is no parameter of TiCDC; did you mean {meant}?"


def _paths(config: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in config.items():
        path = f"{above}.{name}" if above else name
        yield path
        if isinstance(value, Mapping):
            yield from _paths(value, path)


def _misplaced(path: str, homes: Set[str]) -> str | None:
    """The right place of a key that stands where TiCDC does not look, such as csv outside of sink."""
    found = [home for home in homes if _name(home) == _name(path)]
    return found[0] if len(found) == 1 else None


def _near(path: str, homes: Set[str]) -> str | None:
    here = {_name(home) for home in homes if _section(home) == _section(path)}
    meant = nearest(_name(path), here, _CUTOFF)
    return f"{_section(path)}.{meant}".lstrip(".") if meant else None


def _section(path: str) -> str:
    return path.rpartition(".")[0]


def _name(path: str) -> str:
    return path.rpartition(".")[2]
