"""How a Dumpling export was written: the flags of Dumpling that cannot be detected from its files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from ticdc_assets.errors import ConfigError
from ticdc_assets.protocols.values.text import NUMBER, TextForms

_LINE_ENDS: Final = frozenset("\r\n")
Binary = Literal["raw", "hex", "base64"]

DIALECTS: Final[dict[str, Binary]] = {"default": "raw", "snowflake": "hex", "redshift": "hex", "bigquery": "base64"}
"""The form of binary values in CSV files, by Dumpling's `--csv-output-dialect`."""


@dataclass(frozen=True, slots=True)
class DumpForm:
    """Dumpling's flags, with its defaults. `binary` is the form of binary values in CSV; in SQL they are hex. Without a
    `terminator`, lines end with CR LF or LF, as each file has it: this depends on Dumpling's version.

    Raises:
        ConfigError: rows written with these flags cannot be read without doubt.
    """

    separator: str = ","
    delimiter: str = '"'
    terminator: str | None = None
    null: str = "\\N"
    escapes_backslash: bool = True
    has_header: bool = True
    binary: Binary = "raw"

    def __post_init__(self) -> None:
        if len(self.delimiter.encode()) > 1:
            raise _refused("--csv-delimiter", "one ASCII character or none", f"{len(self.delimiter.encode())} bytes")
        if not self.separator or self.terminator == "":
            raise _refused("--csv-separator, --csv-line-terminator", "at least one character in each", "none")
        if not self.delimiter and not self.escapes_backslash:
            found = "--escape-backslash=false without a delimiter, which leaves separators inside values unmarked"
            raise _refused("--csv-delimiter", "a delimiter, or backslashes as escapes", found)
        if not self.delimiter and not (self.terminator is None or _LINE_ENDS & set(self.terminator)):
            expected = "a line end in it, where there is no delimiter"
            raise _refused("--csv-line-terminator", expected, repr(self.terminator))
        if not self._null_is_certain():
            expected = "a text that no value is written as, such as \\N"
            raise _refused("--csv-null-value", expected, repr(self.null))

    def _null_is_certain(self) -> bool:
        """Whether the text of NULL is one field, and no number and no bare text is written so."""
        marks = {*_LINE_ENDS, *self.delimiter, self.separator, self.terminator or "\n"}
        if NUMBER.fullmatch(self.null) is not None or any(mark in self.null for mark in marks):
            return False
        if self.delimiter:
            return True
        # A text has a backslash only before what it escapes.
        rest = re.sub(rf"\\[0rn\\{re.escape(self.separator[0])}]", "", self.null)
        return re.search(r"\\.", rest) is not None and not re.sub(r"\\.", "", self.null).endswith("\\")

    def forms(self, is_csv: bool, zone: str) -> TextForms:
        """How values are written. `zone` is the time zone of the session that Dumpling read with."""
        return TextForms(binary=self.binary if is_csv else "hex", enum="label", zone=zone)


def _refused(where: str, expected: str, found: str) -> ConfigError:
    return ConfigError(where, expected, found, "Export the tables again with Dumpling's default flags.")
