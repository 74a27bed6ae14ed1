"""Regular expressions that every supported Python matches alike."""

from __future__ import annotations

from pathlib import Path

from ticdc_assets.protocols.csv import records
from ticdc_assets.protocols.csv.options import CsvOptions


def test_no_group_of_a_csv_pattern_is_repeated_possessively():
    """Python before 3.11.5 takes one character too many where such a group begins with a lookahead (Debian 12)."""
    assert ")*+" not in Path(records.__file__).read_text()


def test_a_field_without_quotes_ends_where_something_stops_it():
    given = {
        (",", '"'): [(b"ab,c", 2), (b"", 0), (b"a\\,b", 2), (b'a"b', 1), (b"ab\r", 2), (b"abc", 3)],
        ("|+|", ""): [(b"a|+|b", 1), (b"a\\|+|b", 6), (b"a|b+c", 5), (b"a\\\nb", 1), (b"a\\", 1), (b"\\\\|+|", 2)],
    }
    for (delimiter, quote), cases in given.items():
        options = CsvOptions(delimiter=delimiter, quote=quote)
        assert [records._bare_end(data, 0, options) for data, _ in cases] == [end for _, end in cases]
