"""What `load` refuses before Java starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.cli import main
from ticdc_assets_tests.commands.called import no_dagster_home, on, shop
from ticdc_assets_tests.fixtures import CORPUS

__all__ = ["no_dagster_home"]

DUMP = str(CORPUS / "dumps" / "sql")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 1, "shop.gens.000000000.sql, columns: expected values of all stored columns, found none of s."),
        (("--without", "shop.none"), 2, "--without: expected a table of the dump, as SCHEMA.TABLE, found shop.none."),
        (("--at", "7"), 2, "--at: expected 470"),
        (("--csv-delimiter", "''"), 2, "--csv-delimiter: expected one ASCII character or none, found 2 bytes."),
        (("--tables", "shop"), 2, "filter rule 'shop': expected TiCDC's table filter syntax"),
        (("--time-zone", "Nowhere"), 2, "expected a known time zone, found 'Nowhere'."),
    ],
)
def test_a_dump_that_cannot_be_read_without_doubt_is_refused(tmp_path: Path, capsys, arguments, code, sentence):
    assert main(on(shop(tmp_path), "load", DUMP, *arguments)) == code
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "load: expected DUMP or --from-upstream, found neither."),
        ((DUMP, "--from-upstream"), "load: expected DUMP or --from-upstream, found both."),
        (("--from-upstream",), "expected `upstream` in the config, found none."),
    ],
)
def test_rows_come_from_one_place(tmp_path: Path, capsys, arguments, sentence):
    assert main(on(shop(tmp_path), "load", *arguments)) == 2
    assert sentence in capsys.readouterr().err
