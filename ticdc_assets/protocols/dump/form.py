"""How a Dumpling export was written: the flags of Dumpling that cannot be detected from its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ticdc_assets.errors import ConfigError
from ticdc_assets.protocols.values.text import TextForms

Binary = Literal["raw", "hex", "base64"]

DIALECTS: Final[dict[str, Binary]] = {"default": "raw", "snowflake": "hex", "redshift": "hex", "bigquery": "base64"}
"""By Dumpling's `--csv-output-dialect`: how CSV files have binary values."""


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

    def forms(self, is_csv: bool, zone: str) -> TextForms:
        """How values are written. `zone` is the time zone of the session that Dumpling read with."""
        return TextForms(binary=self.binary if is_csv else "hex", enum="label", zone=zone)


def _refused(where: str, expected: str, found: str) -> ConfigError:
    return ConfigError(where, expected, found, "Export the tables again with Dumpling's default flags.")
