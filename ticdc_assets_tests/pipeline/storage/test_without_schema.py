"""A folder of files whose schema the bucket has not: the table waits, and its note names the folder."""

from __future__ import annotations

from pathlib import Path

from ticdc_assets.pipeline.storage.plan import FilePlans
from ticdc_assets.pipeline.storage.record import unknown_tables
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.sources.storage.paths import SourceFile
from ticdc_assets.sources.storage.scan import Cursor
from ticdc_assets_tests.pipeline.small_feeds import Sink

T, U = ("s", "t"), ("s", "u")


def test_a_table_without_schema_files_says_which_folder_lacks_them_and_holds_no_other(tmp_path: Path):
    sink = Sink(tmp_path / "bucket")
    sink.table(U)
    sink.file(U, 1, [sink.insert(U, 110, 1, "one")])
    path = sink.file(T, 1, [sink.line(T, "I", 110, 1, "one")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    assert (feed.state(T), feed.state(U)) == ("waiting", "live")
    assert f"{path.parent.relative_to(sink.folder)}: expected meta/schema_100_" in feed.note(T)
    assert "Restore the schema file" in feed.note(T)
    assert feed.found(U) == feed.expected(U)

    sink.table(T)
    sink.rows.append(sink.rows[0]._replace(table="t"))
    healed = sink.feed(tmp_path / "lake")
    healed.run()
    assert healed.state(T) == "live"
    assert healed.found() == healed.expected()


def test_a_file_of_an_unknown_table_is_recorded_with_what_to_look_for():
    file = SourceFile("s/t/100/CDC1.csv", 9, "s", "t", 100, None, None, None, 1)
    plan = FilePlans([file], fold([]), {}, {}, Cursor.empty(), by_arrival=False, follows=lambda _schema, _table: True)

    [record] = unknown_tables(plan, []).values()

    assert (record.schema, record.table, record.state) == ("s", "t", "stopped")
    assert record.note.startswith("s/t/100/CDC1.csv: expected a schema of s.t for its folder, found none.")
    assert "schema files" in record.note
