"""Settings that change on a lake with data: a table that would have rows of both is held, and no row is lost."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.config.keys.changefeed_keys import OnChange
from ticdc_assets.errors import ConfigError
from ticdc_assets.notes import NoteCode
from ticdc_assets.pipeline.rebuild.run import RebuildReport, RebuildRequest, rebuild_tables
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.sources.storage.cursor import Cursor
from ticdc_assets.spark import session
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.written_with import SETTINGS
from ticdc_assets_tests.config.reference import key_changes
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink, column
from ticdc_assets_tests.pipeline.two_tables import shown
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

T, U, KEYED = ("s", "t"), ("s", "u"), ("s", "keyed")
A, B, AT = column("a", "INT"), column("b", "INT"), column("at", "TIMESTAMP")
KEYLESS = "CREATE TABLE `t` (`a` INT, `b` INT, `at` TIMESTAMP)"
COLUMNS = ("a", "b", "at")
NOON, ONE = "2025-07-31 12:00:00", "2025-07-31 13:00:00"
ROWS = [(1, 1), (1, 2), (2, 1)]


@pytest.fixture
def made(tmp_path: Path) -> Sink:
    """`t` has no key, and equal values of `a`; `u` has neither a TIMESTAMP nor an entry in `keys`."""
    made = Sink(tmp_path / "bucket")
    made.table(T, columns=[A, B, AT], query=KEYLESS)
    made.file(T, 1, [made.insert(T, 110, a, b, NOON, columns=COLUMNS) for a, b in ROWS])
    made.table(U)
    made.file(U, 1, [made.insert(U, 110, 1, "one")])
    return made


def again(made: Sink, **settings: Any) -> Feed:
    """The same lake with these settings."""
    return made.feed(made.folder.parent / "lake", **settings)


def later(made: Sink, at: int = 1100) -> None:
    number = at // 1000 + 1
    made.file(T, number, [made.insert(T, at, number, 9, ONE, columns=COLUMNS)])
    made.file(U, number, [made.insert(U, at, number, "more")])
    made.bucket.checkpoint(at + 900)


def codes(feed: Feed, name: tuple[str, str] = T) -> list[str]:
    return [note.code for note in feed.record(name).notes if not note.is_warning]


def times(feed: Feed) -> set[str]:
    table = feed.lake.lake.catalog.load_table(tuple(feed.record(T).changelog or ()))
    return {f"{at:%d %H:%M}" for at in table.scan().to_arrow().column("at").to_pylist()}


CHANGES = [
    ({"keys": {"s.t": ["a"]}}, {"keys": {"s.t": ["a", "b"]}}, "expected the key (a), with which its rows were read"),
    ({"keys": {"s.t": ["a", "b"]}}, {"keys": {"s.t": ["a"]}}, "found (a)"),
    ({"keys": {"s.t": ["a", "b"]}}, {}, "found none"),
    ({}, {"time_zone": "Asia/Shanghai"}, "expected time_zone UTC, with which its rows were read, found Asia/Shanghai"),
]


@pytest.mark.parametrize(("first", "second", "words"), CHANGES)
def test_a_table_whose_rows_were_read_otherwise_is_held_and_goes_on_when_the_setting_is_changed_back(
    made: Sink, first: dict[str, Any], second: dict[str, Any], words: str
):
    read = again(made, **first)
    read.run()
    rows = read.found(T)

    changed = again(made, **second)
    assert changed.run() is not None, "a change without new input is noticed"

    assert codes(changed) == [NoteCode.SETTINGS]
    assert words in changed.note(T)
    assert "`ticdc-assets rebuild --table s.t --from source`" in changed.note(T)
    assert changed.run() is None
    later(made)
    changed = again(made, **second)
    changed.run()
    assert changed.found(U) == changed.expected(U)
    assert changed.found(T) == rows
    back = again(made, **first)
    back.run()
    assert (back.state(T), codes(back)) == ("live", [])
    assert times(back) == {"31 12:00", "31 13:00"}
    assert back.run() is None


def test_a_run_that_ended_before_its_record_leaves_the_settings_that_its_rows_were_read_with(made: Sink):
    feed = again(made)
    feed.run()
    control = feed.lake.lake.control
    feed.lake.lake.catalog.drop_table((*control.namespace, "watermarks"))

    changed = again(made, time_zone="Asia/Shanghai")
    changed.run()

    assert codes(changed) == [NoteCode.SETTINGS]


def test_a_lake_of_an_earlier_version_takes_the_settings_of_its_next_run(made: Sink):
    feed = again(made)
    feed.run()
    changelog = feed.lake.lake.catalog.load_table(tuple(feed.record(T).changelog or ()))
    with changelog.transaction() as tx:
        tx.remove_properties(SETTINGS)
    later(made)
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    old = tuple(replace(table, settings=None) for table in newest.tables)
    feed.lake.lake.control.record(replace(newest, tables=old))

    again(made, time_zone="Asia/Tokyo").run()

    changed = again(made, time_zone="Asia/Shanghai")
    changed.run()
    assert "expected time_zone Asia/Tokyo" in changed.note(T)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["name"], "expected the key that the stream has, (id), or more columns, found (name) in `keys`"),
        (["id", "nmae"], "expected columns of the table in `keys`, found nmae"),
    ],
)
def test_keys_that_cannot_be_the_key_of_the_table_hold_it_before_a_row_is_read(made: Sink, keys: list[str], words: str):
    feed = again(made, keys={"s.u": keys})
    feed.run()
    feed.run()
    assert codes(feed, U) == [NoteCode.KEYS]
    assert words in feed.note(U)
    assert feed.state(T) == "live"
    corrected = again(made)
    corrected.run()
    assert corrected.state(U) == "live"
    assert corrected.found(U) == corrected.expected(U)


@pytest.mark.parametrize("keys", [["id"], ["ID"], ["id", "name"]])
def test_keys_that_contain_the_key_of_the_stream_are_taken(made: Sink, keys: list[str]):
    feed = again(made, keys={"s.u": keys})
    feed.run()
    assert feed.state(U) == "live"
    assert [name.lower() for name in keys] == feed.record(U).key


def test_keys_for_a_table_without_one_are_taken_in_mid_life_unless_an_update_has_changed_them(tmp_path: Path):
    made = Sink(tmp_path / "bucket", old_values=True)
    for name in (T, U):
        query = f"CREATE TABLE `{name[1]}` (`id` INT NOT NULL,`name` VARCHAR(200))"
        made.table(name, columns=[{**ID, "ColumnIsPk": "false"}, NAME], query=query)
    half = made.line(T, "I", 110, 1, "one")
    made.file(T, 1, [half, *made.update(T, 120, (1, "one"), (1, "two"))])
    made.file(U, 1, [half.replace(b'"t"', b'"u"'), *made.update(U, 120, (1, "one"), (2, "one"))])
    again(made).run()

    keyed = again(made, keys={"s.*": ["id"]})
    keyed.run()

    assert (codes(keyed, T), codes(keyed, U)) == ([], [NoteCode.SETTINGS])
    assert "expected no change of its key (id) before `keys` named it, found updates of it" in keyed.note(U)


def test_other_control_tables_and_a_stream_without_commit_ts_are_refused(made: Sink):
    again(made).run()
    for changed, words in (
        (again(made, target={"control": "elsewhere"}), "expected control tables in ticdc_feed"),
        (
            again(made, config={"sink": {"date-separator": "none"}}),
            "expected a stream with commit_ts, found one without",
        ),
    ):
        with pytest.raises(ConfigError, match=words):
            changed.run()
    feed = again(made)
    later(made)
    feed.run()
    feed.truth = Counter(made.rows)
    assert feed.found(U) == feed.expected(U)
    assert feed.found(T).total() == feed.expected(T).total() == len(ROWS) + 1


def test_a_bucket_is_not_gone_on_with_from_messages():
    cursor = Cursor.empty().to_json()
    with pytest.raises(ConfigError, match="expected the bucket that earlier runs have read, found messages"):
        StreamCursor.from_json(cursor)


def rebuilt(feed: Feed, **wish: Any) -> RebuildReport:
    jvm = JvmCatalog(session(feed.lake.config), feed.lake.catalog_name)
    return rebuild_tables(feed.lake.lake, lambda: jvm, RebuildRequest(("s.t",), **wish))


@pytest.mark.long
@pytest.mark.spark
def test_a_rebuild_from_the_source_heals_what_a_rebuild_from_the_changelog_would_not(made: Sink):
    settings: dict[str, Any] = {"history": ["s.t"], "views": "{schema}__recorded.{table}"}
    feed = again(made, keys={"s.t": ["a"]}, **settings)
    feed.lake.run()
    assert len(shown(feed, T)) == 2
    later(made)

    feed = again(made, keys={"s.t": ["a", "b"]}, time_zone="Asia/Shanghai", **settings)

    assert "expected time_zone UTC" in str(rebuilt(feed).errors), "also before a run has recorded the change"
    feed.lake.run()
    assert "expected time_zone UTC" in str(rebuilt(feed).errors)
    assert len(shown(feed, T)) == 2
    assert rebuilt(feed, from_source=True).errors == {}
    assert feed.state(T) == "live"
    assert [row[:2] for row in shown(feed, T)] == [*ROWS, (2, 9)]
    assert times(feed) == {"31 04:00", "31 05:00"}
    kept = feed.lake.lake.catalog.load_table(tuple(feed.record(T).history_table or ())).scan().to_arrow()
    assert kept.num_rows == 4
    assert kept.column("_ticdc_is_current").to_pylist() == [True] * 4
    feed.run()
    assert feed.state(T) == "live"


# -- every key, in mid-life and back -----------------------------------------------------------------------------------

HELD = ("s", "held")
BASE: dict[str, Any] = {
    "keys": {"s.t": ["a", "b"], "s.held": ["absent"]},
    "history": ["s.*"],
    "views": "{schema}__v.{table}",
    "held_views": "refuse",
}
OF_MESSAGES = {"skip_offsets", "claim_check", "schema_registry", "ddl_from"}
"""Keys that a bucket of CSV does not take: their test is `pipeline/stream/test_changed_stream_settings.py`."""


def changed_key(made: Sink, key: str) -> dict[str, Any]:
    """Settings in which this key is another one."""
    folder, csv = made.folder.parent, {"include-commit-ts": True, "output-old-value": False}
    if key == "config_file":
        (folder / "cdc.toml").write_text(
            "[sink]\ndate-separator = 'none'\n[sink.csv]\ninclude-commit-ts = true\noutput-old-value = false\n"
        )
    if key == "schema_files":
        (folder / "s.other-schema.sql").write_text("CREATE TABLE `other` (`id` INT PRIMARY KEY);")
    return {
        "sink_uri": {"sink_uri": "file:///elsewhere?protocol=csv"},
        "config": {"config": {"case-sensitive": True, "sink": {"date-separator": "none", "csv": csv}}},
        "config_file": {"config": None, "config_file": str(folder / "cdc.toml")},
        "source": {"source": {"storage": str(folder / "moved")}},
        "time_zone": {"time_zone": "Asia/Shanghai"},
        "tables": {"tables": ["*.*", "!s.t"]},
        "schema_files": {"schema_files": [str(folder / "s.other-schema.sql")]},
        "keys": {"keys": {"s.t": ["a"], "s.held": ["absent"]}},
        "partition": {"partition": "bucket(4)"},
        "format_version": {"format_version": 2},
        "on_drop": {"on_drop": "drop"},
        "history": {"history": ["s.u"]},
        "publish": {"publish": "together"},
        "views": {"views": "{schema}__w.{table}"},
        "held_views": {"held_views": "back"},
        "readers": {"readers": "before_quarantine"},
        "zero_dates": {"zero_dates": "error"},
        "on_bad_message": {"on_bad_message": "stop"},
        "skip_files": {"skip_files": ["s/none/100/CDC000001.csv"]},
        "upstream": {"upstream": {"host": "127.0.0.1", "port": 4000, "user": "reader"}},
        "target": {"target": {"mirror": "m_{schema}.{table}", "changelog": "c_{schema}.{table}"}},
        "dagster": {"dagster": {"max_lag": "30m"}},
    }[key]


def with_held_table(made: Sink) -> None:
    made.table(HELD)
    made.file(HELD, 1, [made.line(HELD, "I", 110, 1, "one")])


def assert_all_is_there(feed: Feed, made: Sink, names: tuple[tuple[str, str], ...] = (T, U)) -> None:
    feed.truth = Counter(made.rows)
    assert {name: feed.state(name) for name in names} == dict.fromkeys(names, "live")
    assert codes(feed, HELD) == [NoteCode.KEYS]
    assert feed.found(U) == feed.expected(U)
    if T in names:
        assert feed.found(T).total() == feed.expected(T).total()
        assert times(feed) <= {"31 12:00", "31 13:00"}


@pytest.mark.parametrize("key", sorted(key_changes().keys() - OF_MESSAGES))
def test_every_key_changes_in_mid_life_as_declared_and_back_without_harm(made: Sink, key: str):
    with_held_table(made)
    again(made, **BASE).run()
    later(made)
    if key == "source":
        shutil.copytree(made.folder, made.folder.parent / "moved")

    changed = again(made, **{**BASE, **changed_key(made, key)})
    changed.run()

    if key_changes()[key][0] is OnChange.HELD:
        assert codes(changed) == [NoteCode.SETTINGS]
    assert_all_is_there(changed, made, (U,) if key_changes()[key][0] is OnChange.HELD or key == "tables" else (T, U))
    later(made, 2100)
    back = again(made, **BASE)
    back.run()
    assert_all_is_there(back, made)
    assert back.run() is None


ROUNDS = (
    ("time_zone", "history", "held_views", "on_drop", "config_file", "skip_files"),
    ("keys", "target", "views", "source", "partition", "zero_dates", "dagster"),
    ("tables", "format_version", "readers", "schema_files", "on_bad_message", "upstream"),
)
"""Keys that change together. `sink_uri` and `config` are as in the test above: they are read in the changelogs only."""


@pytest.mark.long
@pytest.mark.spark
def test_mirrors_histories_and_views_follow_every_change_and_the_change_back(made: Sink):
    with_held_table(made)
    again(made, **BASE).lake.run()
    for number, keys in enumerate(ROUNDS):
        later(made, 1100 + 1000 * number)
        if "source" in keys:
            shutil.copytree(made.folder, made.folder.parent / "moved")
        changed = {name: value for key in keys for name, value in changed_key(made, key).items()}
        again(made, **{**BASE, **changed}).lake.run()
        back = again(made, **BASE)
        back.lake.run()
        assert_all_is_there(back, made)
        for name in (T, U):
            rows = back.expected(name).total()
            assert len(shown(back, name)) == rows, keys
            history = back.lake.lake.catalog.load_table(tuple(back.record(name).history_table or ()))
            assert history.scan().to_arrow().column("_ticdc_is_current").to_pylist() == [True] * rows, keys
        shown_by = {tuple(view.view): view.mirror_snapshot_id for view in back.lake.lake.control.views()}
        assert set(shown_by) == {("s__v", "t"), ("s__v", "u")}, keys


def test_without_commit_ts_a_change_is_held_too_and_no_rebuild_is_advised(tmp_path: Path):
    made = Sink(tmp_path / "bucket", commit_ts=False)
    made.table(T, columns=[A, B, AT], query=KEYLESS)
    made.file(T, 1, [made.insert(T, 110, a, b, NOON, columns=COLUMNS) for a, b in ROWS])
    first = again(made, keys={"s.t": ["a"]})
    first.run()
    rows = first.found(T).total()
    changed = again(made, keys={"s.t": ["a", "b"]})
    changed.run()
    assert codes(changed) == [NoteCode.SETTINGS]
    assert "in a changefeed of another name, with another `target`" in changed.note(T)
    assert "rebuild" not in changed.note(T)
    back = again(made, keys={"s.t": ["a"]})
    back.run()
    assert (back.state(T), back.found(T).total()) == ("live", rows)
