"""Keys of a changefeed's configuration, and parameters of its sink URI, that are unknown in TiCDC.

TiCDC refuses unknown keys itself, but the user's copy may be edited, or belong to a newer server. A changefeed that is
read with wrong options gives wrong rows without an error, so each unknown key causes a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from ticdc_assets.config.reading.sections import similar
from ticdc_assets.config.ticdc.options import OPTIONS, PARAMETERS, SECTIONS, option_at
from ticdc_assets.plurals import counted

_CUTOFF: Final = 0.84
_AS_IF_NONE: Final = "it is read as if it did not change the stream"
_HOMES: Final = frozenset(OPTIONS) | SECTIONS


def misspelt(config: Mapping[str, Any]) -> Iterator[str]:
    """One warning for each unknown key, or for a whole unknown section."""
    for path in _unknown(config):
        meant = _misplaced(path) or _near(path)
        what = f"config.{path} is no key of TiCDC that is known here"
        yield f"{what}; did you mean {meant}?" if meant else f"{what}: {_AS_IF_NONE}"


def misspelt_query(query: Mapping[str, str]) -> Iterator[str]:
    """The same for parameters of the sink URI. One that resembles no known parameter is not named, as it may be a part
    of a password."""
    others = 0
    for name in query:
        if name in PARAMETERS:
            continue
        if home := _home(name):
            yield f"TiCDC does not read {name} from sink_uri, so it has no effect; it belongs to {home}"
        elif meant := similar(name, PARAMETERS, _CUTOFF):
            yield f"parameter {name} of sink_uri is no parameter of TiCDC; did you mean {meant}?"
        else:
            others += 1
    if others:
        what = counted(others, "parameter")
        yield f"sink_uri has {what} that TiCDC is not known to have; escape & in passwords (%26)"


def _unknown(config: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in config.items():
        path = f"{above}.{name}" if above else name
        if value is None:
            continue
        if option_at(path) is None and path not in SECTIONS:
            yield path
            continue
        for below in value if isinstance(value, list) else [value]:
            if isinstance(below, Mapping):
                yield from _unknown(below, path)


def _home(name: str) -> str | None:
    """The configuration path of a key with this name; that of the sink if there are several."""
    return min((path for path in OPTIONS if _name(path) == name), key=_sink_first, default=None)


def _sink_first(path: str) -> tuple[bool, int, str]:
    return not path.startswith("sink."), path.count("."), path


def _misplaced(path: str) -> str | None:
    """The right path of a key in the wrong place, such as csv outside of sink."""
    found = [home for home in _HOMES if _name(home) == _name(path)]
    return found[0] if len(found) == 1 else None


def _near(path: str) -> str | None:
    here: Collection[str] = {_name(home) for home in _HOMES if _section(home) == _section(path)}
    meant = similar(_name(path), here, _CUTOFF)
    return f"{_section(path)}.{meant}".lstrip(".") if meant else None


def _section(path: str) -> str:
    return path.rpartition(".")[0]


def _name(path: str) -> str:
    return path.rpartition(".")[2]
