"""Changelogs of streams of messages that were set back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.changes import layout
from ticdc_assets.notes import NoteCode
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import SmallStream, UndatedCanalJson, shape

A, B = shape("a"), shape("b")


def ids(lake: FeedLake, name: str) -> list[int]:
    record = lake.records()["s", name]
    rows = lake.lake.catalog.load_table(tuple(record.changelog or ())).scan().to_arrow()
    return sorted(rows.filter(rows.column(layout.OP).is_valid()).column("id").to_pylist())


@pytest.mark.parametrize("has_commit_ts", [True, False])
def test_no_message_is_passed_while_a_changelog_is_set_back(tmp_path: Path, has_commit_ts: bool):
    stream = SmallStream(tmp_path) if has_commit_ts else SmallStream(tmp_path, UndatedCanalJson())

    def sent(tick: int) -> FeedLake:
        for table in (A, B):
            stream.put(tick, table, tick)
        stream.watermark(tick + 5)
        lake = stream.lake()
        lake.publish()
        return lake

    for table in (A, B):
        stream.create(1, table)
    identifier = tuple(sent(2).records()["s", "a"].changelog or ())
    catalog = stream.lake().lake.catalog
    older = catalog.load_table(identifier).metadata_location
    sent(12)
    newer = catalog.load_table(identifier).metadata_location
    assert newer != older

    def register(metadata: str) -> None:
        catalog.drop_table(identifier)
        catalog.register_table(identifier, metadata)

    register(older)
    sent(22)
    held = sent(32)

    assert [note.code for note in held.records()["s", "a"].notes] == [NoteCode.SET_BACK]
    assert ids(held, "a") == [2]
    assert ids(held, "b") == [2, 12, 22, 32]
    register(newer)
    healed = sent(42)
    assert healed.records()["s", "a"].state == "live"
    assert ids(healed, "a") == ids(healed, "b") == [2, 12, 22, 32, 42]
