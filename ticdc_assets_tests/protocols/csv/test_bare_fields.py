"""CSV without a quote: what stands in the file for a text, NULL and a delimiter, and where it tells too little."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.replay.run import ReplayRequest, replay
from ticdc_assets.protocols.csv.decoder import CsvRecord, read
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets_tests.pipeline.small_feeds import Feed, column, hand_made
from ticdc_assets_tests.protocols.csv.read import bulk_or_none
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.sources.storage.bucket import Bucket

T = ("s", "t")
NULLS = {"": True, "NULL": True, "\\\\": True, "\\r": True, "\\N": False, "\\": None, "a,b": None, "a\nb": None}
"""By the text of NULL, whether a text can stand in the file as it does; None where it is no field."""


def written(cell: str | None, options: CsvOptions) -> bytes:
    """A field as TiCDC writes it: of the delimiter it escapes whole ones only, byte by byte."""
    if cell is None:
        return options.null.encode()
    escaped = cell.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").encode()
    delimiter = options.delimiter.encode()
    return escaped.replace(delimiter, b"".join(b"\\" + chr(byte).encode() for byte in delimiter))


def line(cells: tuple[str | None, ...], options: CsvOptions) -> bytes:
    return options.delimiter.encode().join([b"I", b"t", b"s", *(written(c, options) for c in cells)]) + b"\n"


@pytest.mark.parametrize("delimiter", [",", "||", ";;;", "|+|", "aba", "ab", "é", "数"])
def test_a_record_has_the_fields_that_were_written_or_is_broken(delimiter: str):
    options = CsvOptions(delimiter=delimiter, quote="")
    signs = [*delimiter, delimiter, ""]
    texts = ["".join(parts) for parts in product(signs, ["x", ""], signs)]
    pairs = product([*texts, None], repeat=2)
    by_line: dict[bytes, set[tuple[str | None, ...]]] = {}
    for pair in pairs:
        if not any(_overlaps(cell or "", delimiter) for cell in pair):  # TiCDC fails at such a text
            by_line.setdefault(line(pair, options), set()).add(pair)

    for data, meant in by_line.items():
        [found] = read(data, options, 2, "f")
        in_bulk = bulk_or_none(data, options, ("a", "b"), 1000)

        assert {found.fields} == meant if isinstance(found, CsvRecord) else _touches_delimiters(meant, delimiter), data
        assert in_bulk is None or {in_bulk[0].new} == meant


def _touches_delimiters(pairs: set[tuple[str | None, ...]], delimiter: str) -> bool:
    """Whether in each pair a text begins or ends as the delimiter does, where that is how the delimiter ends, too."""
    has_other_places = any(delimiter.endswith(delimiter[:length]) for length in range(1, len(delimiter)))
    return has_other_places and all(
        any(cell and {cell[0], cell[-1]} & {delimiter[0], delimiter[-1]} for cell in pair) for pair in pairs
    )


def _overlaps(text: str, delimiter: str) -> bool:
    places = [at for at in range(len(text)) if text.startswith(delimiter, at)]
    return any(after - at < len(delimiter) for at, after in pairwise(places))


@pytest.mark.parametrize("null", ["0", "-5", "1.5", "1e+21", 'a"', '"N"', "a,b", "a\n"])
def test_a_null_that_reads_as_another_value_or_as_no_field_is_refused(null: str):
    with pytest.raises(ConfigError, match=r"csv null: .*another `null`"):
        CsvOptions(null=null)


@pytest.mark.parametrize(("null", "may_be_text"), NULLS.items())
def test_without_a_quote_a_text_may_stand_there_as_null_does(null: str, may_be_text: bool | None):
    if may_be_text is None:
        with pytest.raises(ConfigError, match="csv null"):
            CsvOptions(quote="", null=null)
    else:
        assert CsvOptions(quote="", null=null).null_may_be_text is may_be_text
        assert not CsvOptions(null=null).null_may_be_text


def test_a_header_ends_with_a_line_end():
    with pytest.raises(ConfigError, match="csv terminator: expected a final line end after a header"):
        CsvOptions(output_field_header=True, terminator="$")


def test_without_a_quote_a_record_ends_with_a_line_end():
    assert CsvOptions(terminator="$")
    assert CsvOptions(quote="", terminator="$\n")
    with pytest.raises(ConfigError, match=r"csv terminator: .*another terminator"):
        CsvOptions(quote="", terminator="$")


# -- in a lake --------------------------------------------------------------------------------------------------------


def feed_of(folder: Path, rows: bytes, columns: list[dict[str, str]], truth: list[Change], **csv: Any) -> Feed:
    bucket = Bucket(folder / "bucket")
    bucket.schema(*T, 100, columns, " ")
    bucket.index("s/t/100", 1)
    bucket.data("s/t/100", 1, rows)
    options = {"include-commit-ts": True, "quote": "", **csv}
    return hand_made(folder / "bucket", folder / "lake", "csv", Counter(truth), {"csv": options})


def test_where_a_text_stands_as_null_does_a_not_null_column_has_the_text(tmp_path: Path):
    never = {"ColumnNullable": "false"}
    columns = [
        column("k", "VARCHAR", ColumnPrecision="20", ColumnIsPk="true", **never),
        column("v", "VARCHAR", ColumnPrecision="20"),
        column("b", "VARBINARY", ColumnPrecision="20", **never),
        column("n", "INT"),
    ]
    change = Change(*T, "I", 110, (("b", b""), ("k", ""), ("n", None), ("v", None)), None)
    feed = feed_of(tmp_path, b"I,t,s,110,,,,\r\n", columns, [change], null="")

    feed.run()

    assert feed.state(T) == "live"
    assert feed.found() == feed.expected()


def test_a_record_that_can_be_read_in_two_ways_is_kept_until_it_is_escaped(tmp_path: Path):
    options = CsvOptions(quote="", delimiter="||", include_commit_ts=True)
    columns = [
        column("id", "INT", ColumnPrecision="11", ColumnNullable="false", ColumnIsPk="true"),
        column("a", "VARCHAR", ColumnPrecision="20"),
        column("b", "VARCHAR", ColumnPrecision="20"),
    ]
    truth = [Change(*T, "I", 110, (("a", "x|"), ("b", "y"), ("id", 1)), None)]
    feed = feed_of(tmp_path, b"I||t||s||110||1||x|||y\r\n", columns, truth, delimiter=options.delimiter)
    feed.run()

    [kept] = feed.quarantined()
    place = (kept.path, kept.line)
    assert "expected fields that only one reading gives" in kept.reason
    assert "each character of the delimiter in its values after a backslash" in kept.reason
    corrected = {place: b"I||t||s||110||1||x\\|||y\r\n"}
    replay(feed.lake.lake, ReplayRequest(only=frozenset({place}), corrected=corrected))

    assert feed.found() == feed.expected()
    assert replace(kept, resolution="replayed").resolution == feed.lake.lake.control.ever_quarantined()[0].resolution
