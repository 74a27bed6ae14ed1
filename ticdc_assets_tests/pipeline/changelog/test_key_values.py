"""Key values that the lake cannot distinguish: no change counts as a repeat of another, and no other row is
affected."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.deliveries.database import START_TS
from ticdc_assets_tests.pipeline.changelog.key_messages import message, statement
from ticdc_assets_tests.pipeline.small_feeds import JsonSink, column
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream, at, ids, shape, states

OTHER = shape("b")
CREATE = {
    "DATE": "CREATE TABLE `a` (`k` DATE NOT NULL,`id` INT,PRIMARY KEY(`k`))",
    "ENUM('','x')": "CREATE TABLE `a` (`k` ENUM('','x') NOT NULL,`id` INT,PRIMARY KEY(`k`))",
    "SET('','x')": "CREATE TABLE `a` (`k` SET('','x') NOT NULL,`id` INT,PRIMARY KEY(`k`))",
    "TIMESTAMP": "CREATE TABLE `a` (`k` TIMESTAMP NOT NULL,`id` INT,PRIMARY KEY(`k`))",
}
ZONE = "America/New_York"
CASES: dict[str, tuple[str, list[tuple[str, int, str]], list[int], str]] = {
    # the type, the rows (op, id, key as sent), the ids of those that the lake can hold, what is said of the others
    "two zero dates": (
        "DATE", [("I", 1, "0000-00-00"), ("I", 2, "2024-00-00"), ("I", 3, "2024-01-01")], [3], "does not exist",
    ),
    "an index of no label": ("ENUM('','x')", [("I", 1, "0"), ("I", 2, "1"), ("I", 3, "2")], [2, 3], "number 0"),
    "an hour that a clock change repeats": (
        "TIMESTAMP",
        [("I", 1, "2024-11-03 01:30:00"), ("I", 2, "2024-11-03 01:30:00"), ("I", 3, "2024-11-03 02:30:00")],
        [3], "occurs twice",
    ),
    "an empty set": ("SET('','x')", [("I", 1, "0"), ("I", 2, "1"), ("I", 3, "2")], [2, 3], "number 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_row_of_a_stream_whose_key_reads_like_anothers_is_kept_raw_and_the_others_are_whole(
    case: str, tmp_path: Path
):
    kind, rows, held, said = CASES[case]
    stream = SmallStream(tmp_path)
    stream.send(TOPIC, 0, statement(CREATE[kind], at(1)))
    stream.create(1, OTHER)
    stream.put(2, OTHER, 1)
    for op, number, key in rows:
        stream.send(TOPIC, 0, message(op, {"k": key, "id": str(number)}, kind, at(3)))
    stream.watermark(5)
    lake = stream.lake(time_zone=ZONE)

    lake.publish()

    assert ids(lake) == {"a": held, "b": [1]}
    assert states(lake) == {"a": "live", "b": "live"}
    kept = lake.lake.control.quarantined()
    assert len(kept) == len(rows) - len(held)
    assert all("column 'k'" in bad.reason and said in bad.reason for bad in kept)
    assert not any(key in bad.reason for bad in kept for _, _, key in rows if len(key) > 1)


def test_an_update_that_leaves_a_zero_date_in_its_key_is_kept_raw(tmp_path: Path):
    """Its old row has no key that the lake could hold: no half of it can be distinguished from others."""
    stream = SmallStream(tmp_path)
    stream.send(TOPIC, 0, statement(CREATE["DATE"], at(1)))
    old = {"k": "0000-00-00", "id": "1"}
    stream.send(TOPIC, 0, message("U", {"k": "2024-01-01", "id": "1"}, "DATE", at(3), old))
    stream.watermark(5)
    lake = stream.lake()

    lake.publish()

    assert ids(lake) == {}
    [bad] = lake.lake.control.quarantined()
    assert "column 'k'" in bad.reason


@pytest.mark.parametrize("case", CASES)
def test_a_record_of_a_file_whose_key_reads_like_anothers_is_kept_raw(case: str, tmp_path: Path):
    kind, rows, held, said = CASES[case]
    sink, name = JsonSink(tmp_path / "bucket"), ("s", "a")
    key_column = column("k", kind.partition("(")[0], ColumnNullable="false", ColumnIsPk="true")
    sink.table(name, columns=[key_column, column("id", "INT", ColumnPrecision="11")], query=CREATE[kind])
    lines = [sink.message(name, 110, {"k": key, "id": str(number)}) for _, number, key in rows]
    sink.file(name, 1, lines)
    feed = sink.feed(tmp_path / "lake", time_zone=ZONE)

    feed.run()

    assert sorted(dict(c.new or ())["id"] for c in feed.found(name)) == held
    assert len(feed.quarantined()) == len(rows) - len(held)
    assert all("column 'k'" in bad.reason and said in bad.reason for bad in feed.quarantined())


@pytest.mark.spark
def test_a_zero_date_in_a_key_fails_no_mirror(tmp_path: Path):
    stream = SmallStream(tmp_path)
    stream.send(TOPIC, 0, statement(CREATE["DATE"], at(1)))
    stream.create(1, OTHER)
    stream.put(2, OTHER, 1)
    for number, key in enumerate(("0000-00-00", "2024-01-01")):
        stream.send(TOPIC, 0, message("I", {"k": key, "id": str(number)}, "DATE", at(3)))
    stream.watermark(5)
    lake = stream.lake()

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    records = lake.records()
    assert {name: record.rows for name, record in records.items()} == {("s", "a"): 1, ("s", "b"): 1}
    assert START_TS < records["s", "a"].watermark == at(5)
