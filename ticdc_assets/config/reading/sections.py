"""The YAML of the file with the lines of its keys, and the problems found in it, each with its place.

Problems are collected, so that the user can fix all of them at once. They never quote a value that could be a secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import yaml

from ticdc_assets.config.reading.secrets import redacted
from ticdc_assets.errors import ConfigError, ConfigFaultsError
from ticdc_assets.names.table_filter import TableFilter

T = TypeVar("T")
V = TypeVar("V")

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of changefeeds and catalogs, which Dagster, Spark and Iceberg accept unchanged."""

_SHOWN_CHARS_MAX: Final = 60
SIMILAR_MIN: Final = 0.75
"""Below it, names are different words: `alerts` and `tables` have 0.67."""
_PART_CHARS_MIN: Final = 3

_TAB: Final = "character '\\t'"
_FOUND: Final = re.compile(r"(?:but )?found ")
_TOKEN: Final = re.compile(r"'?<([a-z ]+)>'?")
_TOKENS: Final = {
    "stream end": "the end of the file",
    "document start": "the start of a document",
    "block end": "the end of the block",
    "block mapping start": "an indented key",
    "block sequence start": "an indented list",
    "scalar": "a text",
    "alias": "an alias",
    "anchor": "an anchor",
    "tag": "a tag",
}
"""The names that YAML's parser gives to what it found or expected, in words."""
_IN_PLACE_OF: Final = re.compile(r"expected (?P<expected>.*), but (?:found|got) (?P<found>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ConfigFault:
    """One fault of the file; its parts are those of ConfigError."""

    where: str
    expected: str
    found: str
    advice: str


@dataclass(slots=True)
class Problems:
    """The problems of one file, in the order of discovery."""

    file: str
    found: list[ConfigFault] = field(default_factory=list)

    def add(self, where: str, expected: str, found: str, advice: str) -> None:
        """Add a fault with its four parts, unless it is known: a section may be read more than once."""
        fault = ConfigFault(where, expected, found, advice)
        if fault not in self.found:
            self.found.append(fault)

    def take(self, error: ConfigError) -> None:
        """Add the error of a part that does not know the file."""
        self.add(error.where, error.expected, error.found, error.advice)

    def raise_if_any(self) -> None:
        """Raise one ConfigError with all faults; return where there is none."""
        if not self.found:
            return
        if len(self.found) == 1:
            only = self.found[0]
            where = f"{self.file}, {only.where}" if only.where else self.file
            raise ConfigError(where, only.expected, only.found, only.advice)
        listed = (str(ConfigError(p.where, p.expected, p.found, p.advice)) for p in self.found)
        found = f"{len(self.found)} faults"
        raise ConfigFaultsError(self.file, "a config without faults", found, "Correct them:", *listed)


class Block(dict[str, Any]):
    """A mapping of the YAML file, with the line of each key."""

    lines: dict[Hashable, int]


class _Loader(yaml.SafeLoader):
    """YAML's safe types; mappings have the lines of their keys and refuse repeated keys."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value like the base class. Raises ConfigError with the line of a scalar that has the form of
        another type only."""
        try:
            return super().construct_object(node, deep=deep)
        except ValueError:
            place = f"line {node.start_mark.line + 1}"
            kind = node.tag.rpartition(":")[2]
            raise ConfigError(place, "values that YAML can read", f"no valid {kind}", "Quote a text.") from None


def _block(loader: _Loader, node: yaml.MappingNode) -> Block:
    _refuse_repeats(node)
    loader.flatten_mapping(node)
    block = Block()
    block.lines = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise _not_yaml(f"line {line}", f"a key that is a {kind_of(key)}", "Quote the key.")
        block[key] = loader.construct_object(value_node, deep=True)
        block.lines[key] = line
    return block


def _refuse_repeats(node: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key_node, _ in node.value:
        if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
            if key_node.value in seen:
                where = f"line {key_node.start_mark.line + 1}"
                raise _not_yaml(where, f"{key_node.value} twice", "Keep one of the two.")
            seen.add(key_node.value)


def _time(loader: _Loader, node: yaml.ScalarNode) -> Any:
    """A date or a time. A date that no calendar has becomes text, so that the key's own reader raises the error."""
    try:
        return loader.construct_yaml_timestamp(node)
    except ValueError:
        return node.value


_Loader.add_constructor("tag:yaml.org,2002:map", _block)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _time)


def _not_yaml(where: str, found: str, advice: str) -> ConfigError:
    return ConfigError(where, "a YAML mapping with each key once", found, advice)


def parse_yaml(text: str) -> Block:
    """Parse the file. Raises ConfigError with the line number, without the text of the line (it may hold a secret)."""
    try:
        loaded = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader that also records lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise _not_yaml(where, _yaml_found(error.problem or ""), _yaml_hint(error.problem or "")) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _not_yaml("", type(error).__name__, "Correct the YAML.") from None
    if loaded is None:
        loaded = Block()
        loaded.lines = {}
    if not isinstance(loaded, Block):
        raise _not_yaml("line 1", f"a {kind_of(loaded)}", "Start with `changefeeds:`.")
    return loaded


def _yaml_found(problem: str) -> str:
    """The parser's complaint, phrased to follow the word "found"."""
    if _TAB in problem:
        return "a tab"
    problem = _TOKEN.sub(lambda found: _TOKENS.get(found[1], found[0]), problem)
    both = _IN_PLACE_OF.fullmatch(problem)
    if both is not None:
        return f"{both['found']} in place of {both['expected']}"
    return _FOUND.sub("", problem, count=1) if _FOUND.match(problem) else problem or "something else"


def _yaml_hint(problem: str) -> str:
    if _TAB in problem:
        return "Replace it by spaces: YAML has no tabs before a key or a value."
    if "alias" in problem or "anchor" in problem or "alphabetic" in problem:
        return 'Quote texts that start with * or &, such as "*.*".'
    return "Correct the YAML there; quote texts that hold `: ` or start with a special character, such as {."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that the user most likely meant: it is spelt almost the same, has the same letters, or one of the
    two begins or ends with the other. None where every known name is another word."""
    candidates = tuple(known)
    plain = _plain(name)
    return similar(name, candidates) or next((found for found in candidates if _is_like(plain, _plain(found))), None)


def similar(name: str, known: Iterable[str], cutoff: float = SIMILAR_MIN) -> str | None:
    """The known name whose spelling is the most similar, where it is at least as similar as `cutoff`, from 0 to 1."""
    by_plain = {_plain(candidate): candidate for candidate in known}
    matches = difflib.get_close_matches(_plain(name), by_plain, n=1, cutoff=cutoff)
    return by_plain[matches[0]] if matches else None


def _is_like(one: str, other: str) -> bool:
    if sorted(one) == sorted(other):
        return True
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) >= _PART_CHARS_MIN and (longer.startswith(shorter) or longer.endswith(shorter))


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def as_name(text: str) -> str:
    """A valid changefeed name similar to the text."""
    like = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")
    return like if NAME.fullmatch(like) else f"changefeed_{like}".rstrip("_")


def shown(value: object) -> str:
    """A value for an error message: short, on one line, and without credentials if it is a URI."""
    text = repr(redacted(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}..."


def kind_of(value: object) -> str:
    """The kind of a value, in words of YAML."""
    names = {
        dict: "mapping",
        Block: "mapping",
        list: "list",
        str: "text",
        bool: "true/false",
        int: "number",
        type(None): "nothing",
    }
    return names.get(type(value), type(value).__name__)


class Section:
    """One mapping of the file, at a path: the place of the faults that checks of several keys find."""

    def __init__(self, values: Mapping[str, Any], path: str, problems: Problems) -> None:
        self.values = values
        self._lines: Mapping[Hashable, int] = getattr(values, "lines", {})
        self._path = path
        self.problems = problems

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_faulty(self) -> bool:
        """Whether a fault was found in it."""
        return any(fault.where.startswith((f"{self._path}.", f"{self._path} (")) for fault in self.problems.found)

    def below(self, *path: str) -> Section:
        """The mapping at a path below this one; empty where there is none."""
        values, place = self.values, self._path
        for key in path:
            found = values.get(key)
            values, place = found if isinstance(found, dict) else {}, f"{place}.{key}" if place else key
        return Section(values, place, self.problems)

    def place(self, key: str) -> str:
        """The place of a key, for an error message."""
        full = f"{self._path}.{key}" if self._path else key
        line = self._lines.get(key)
        return f"{full} (line {line})" if line else full

    def problem(self, key: str, expected: str, found: str, advice: str) -> None:
        """Add a fault of a key of this section."""
        self.problems.add(self.place(key), expected, found, advice)

    def checked(self, key: str, make: Callable[[], T], default: T) -> T:
        """The result of `make`; its ConfigError becomes a problem of this key."""
        try:
            return make()
        except ConfigError as error:
            where = f"{self.place(key)}, {error.where}" if error.where else self.place(key)
            self.problems.add(where, error.expected, error.found, error.advice)
            return default

    def rules(
        self, make: Callable[[str, TableFilter, V], T], values: Mapping[str, V], case_sensitive: bool
    ) -> tuple[T, ...]:
        """What is made of each pattern of this section, its filter and its value."""
        return tuple(make(p, self.filter(p, (p,), case_sensitive), value) for p, value in values.items())

    def filter(self, key: str, rules: tuple[str, ...], case_sensitive: bool) -> TableFilter:
        """The filter of the key; none of the tables where a rule has a fault."""
        return self.checked(key, lambda: TableFilter(rules, case_sensitive), TableFilter(()))
