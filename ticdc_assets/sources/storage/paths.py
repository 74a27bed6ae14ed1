"""The grammar of the storage sink's paths; no I/O.

`<schema>/<table>/<version>[/<partition id>][/<date>]/CDC<number>.<extension>` with `meta/CDC.index` in the same folder,
`<schema>/<table>/meta/schema_<version>_<checksum>.json`, and `CDC_<dispatcher>_<number>.<extension>` for a table that
is spread over nodes. TiCDC joins schema and table into the path unescaped, so a name may contain slashes or look like
any other level. Names are therefore never parsed from a path, only the levels below a folder whose schema files have
its name. The levels follow from the changefeed's configuration (`Layout`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import ConfigError
from ticdc_assets.tso import to_datetime

if TYPE_CHECKING:
    from ticdc_assets.config.model.sink import SinkOptions

METADATA: Final = "metadata"
META: Final = "meta"
OLD_SCHEMA: Final = "schema.json"
OLD_INDEX: Final = "CDC.index"

DATE_FORMS: Final = {"none": "", "year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d"}
DATE_SLACK: Final = timedelta(hours=24)
"""A date is TiCDC's local date, at most 12 h behind UTC; the rest is a margin for wrong clocks."""

_NUMERAL: Final = re.compile(r"[1-9][0-9]{0,19}")
_SCHEMA: Final = re.compile(r"schema_([1-9][0-9]{0,19})_([0-9]{10})\.json")
_DATA: Final = re.compile(r"CDC(?:_([^/\n]+)_)?([0-9]{6,20})\.(csv|json)")
_INDEX: Final = re.compile(r"CDC(?:_([^/\n]+))?\.index")
_DATE_LENGTHS: Final = {"year": 4, "month": 7, "day": 10}


@dataclass(frozen=True, slots=True)
class Layout:
    """The file layout in the changefeed's configuration, with TiCDC's defaults.

    `across_nodes` only saves requests: names with dispatchers are read in any case.
    """

    date_separator: str = "day"
    extension: str = "csv"
    partition_separator: bool = True
    index_digits: int = 20
    table_id_as_path: bool = False
    across_nodes: bool = False

    def __post_init__(self) -> None:
        """Refuse values that TiCDC would refuse."""
        if self.date_separator not in DATE_FORMS:
            raise _refused("date-separator", f"one of {', '.join(DATE_FORMS)}", repr(self.date_separator))
        if self.extension not in ("csv", "json"):
            raise _refused("the files' extension", "csv or json", repr(self.extension))
        if not 6 <= self.index_digits <= 20:
            raise _refused("file-index-digit", "6 to 20", str(self.index_digits))

    @staticmethod
    def of(sink: SinkOptions) -> Layout:
        """The layout of a changefeed's options."""
        return Layout(
            date_separator=str(sink.layout.date_separator),
            extension="csv" if sink.protocol == "csv" else "json",
            partition_separator=sink.layout.enable_partition_separator,
            index_digits=sink.layout.file_index_width,
            table_id_as_path=sink.layout.use_table_id_as_path,
            across_nodes=sink.layout.table_across_nodes,
        )

    @property
    def dated(self) -> bool:
        """Whether files are in folders by date."""
        return self.date_separator != "none"

    @property
    def token(self) -> str:
        """The parts of the layout that determine file locations, as a short text."""
        flags = f"{self.partition_separator:d}{self.table_id_as_path:d}{self.across_nodes:d}"
        return f"{self.date_separator}-{self.extension}-{flags}"

    def is_date(self, name: str) -> bool:
        """Whether a folder's name is a date in this layout."""
        return self.dated and _date_start(name, self.date_separator) is not None

    def date_is_over(self, name: str, tso: int) -> bool:
        """Whether at `tso` no server can still write into the folder of this date, of whichever form."""
        separator = separator_of(name)
        end = _date_end(name, separator) if separator else None
        return end is not None and to_datetime(tso) > end + DATE_SLACK

    def data_name(self, dispatcher: str | None, number: int, digits: int) -> str:
        """The name of a data file."""
        middle = "" if dispatcher is None else f"_{dispatcher}_"
        return f"CDC{middle}{number:0{digits}d}.{self.extension}"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One data file. `schema` and `table` are those of the schema file of `version`."""

    path: str
    size: int
    schema: str
    table: str
    version: int
    partition_id: int | None
    date: str | None
    dispatcher: str | None
    number: int

    @property
    def order(self) -> tuple[int, str, str, int, str, str, int, str]:
        """The sort key for the order of consumption: by version first, numbers last."""
        partition = -1 if self.partition_id is None else self.partition_id
        within = (partition, self.date or "", self.dispatcher or "", self.number, self.path)
        return (self.version, self.schema, self.table, *within)


@dataclass(frozen=True, slots=True)
class DataName:
    """A parsed name of a data file; `digits` is the width of its number."""

    dispatcher: str | None
    number: int
    digits: int
    extension: str


def data_name(name: str) -> DataName | None:
    """Parse the name of a data file; None for any other name."""
    found = _DATA.fullmatch(name)
    if not found or not int(found[2]):
        return None
    return DataName(found[1], int(found[2]), len(found[2]), found[3])


def index_dispatcher(name: str) -> tuple[bool, str | None]:
    """Whether this is the name of an index file, and its dispatcher."""
    found = _INDEX.fullmatch(name)
    return (True, found[1]) if found else (False, None)


def schema_name(name: str) -> tuple[int, str] | None:
    """Version and checksum in the name of a schema file, None for any other name."""
    found = _SCHEMA.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


def numeral(name: str) -> int | None:
    """A version or partition id as TiCDC writes it, None for any other name."""
    return int(name) if name.isascii() and _NUMERAL.fullmatch(name) else None


def go_path_join(*names: str) -> str:
    """Go's path.Join below a root: the folder that TiCDC makes of a schema name and a table name."""
    parts: list[str] = []
    for part in "/".join(names).split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def path_below(*names: str) -> str:
    """The path of names that are one level each; empty ones are left out."""
    return "/".join(name for name in names if name)


def separator_of(name: str) -> str | None:
    """The date separator with this form of folder name; None for a name that is no date."""
    return next((separator for separator in _DATE_LENGTHS if _date_start(name, separator) is not None), None)


@lru_cache(maxsize=4096)
def _date_start(name: str, separator: str) -> datetime | None:
    if len(name) != _DATE_LENGTHS[separator] or not name.isascii():
        return None
    try:
        return datetime.strptime(name, DATE_FORMS[separator]).replace(tzinfo=UTC)
    except ValueError:
        return None


def _date_end(name: str, separator: str) -> datetime | None:
    start = _date_start(name, separator)
    if start is None or start.year == datetime.max.year:
        return None
    if separator == "day":
        return start + timedelta(days=1)
    if separator == "month" and start.month < 12:
        return start.replace(month=start.month + 1)
    return start.replace(year=start.year + 1, month=1)


def _refused(where: str, expected: str, found: str) -> ConfigError:
    return ConfigError(where, expected, found, "Write what the changefeed itself was given.")
