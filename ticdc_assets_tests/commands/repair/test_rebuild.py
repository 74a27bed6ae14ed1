"""What `rebuild` prints of each table."""

from __future__ import annotations

from typing import Any

import pytest

from ticdc_assets.commands.output.terminal import Terminal
from ticdc_assets.commands.repair.rebuild import print_tables

TABLE = {"changefeed": "shop", "table": "shop.users", "rebuilt": True, "watermark": None, "rows": 3, "error": ""}


@pytest.mark.parametrize("state", ["stopped", "waiting"])
def test_a_table_that_is_held_after_its_rebuild_says_why(state: str, capsys: pytest.CaptureFixture[str]):
    held: dict[str, Any] = {**TABLE, "state": state, "note": "its key was dropped."}

    print_tables(Terminal(), [held])

    assert (
        capsys.readouterr().out == f"shop, shop.users: rebuilt, 3 rows. The table stays {state}: its key was dropped.\n"
    )


@pytest.mark.parametrize("state", ["live", "dropped"])
def test_a_table_that_goes_on_has_no_reason(state: str, capsys: pytest.CaptureFixture[str]):
    print_tables(Terminal(), [{**TABLE, "state": state, "note": ""}])

    assert capsys.readouterr().out == "shop, shop.users: rebuilt, 3 rows.\n"
