"""`ticdc-assets replay --quarantine` prints a line for each record, and its exit code shows failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.cli import main
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.assets.feeds import without_java as without_java

SECRET = "secret"


@pytest.fixture
def feed(tmp_path: Path, without_java: None, capfd: Any) -> Feed:
    """A table without a key, so that no mirror needs Java, with one record that is no change."""
    made = Feed(tmp_path)
    made.table("shop", "log", keyless=True).rows("shop", "log", ("I", 1, "ann", 2), ("Q", 2, SECRET, 3)).checkpoint(10)
    assert main(["run", "--config", str(made.path)]) == 1
    capfd.readouterr()
    return made


def replay(feed: Feed, *arguments: str) -> int:
    return main(["replay", "--config", str(feed.path), "--quarantine", *arguments])


def position(feed: Feed) -> str:
    [record] = feed.lake.control.quarantined()
    return f"{record.path}:{record.line}"


def test_a_record_that_is_still_bad_says_why_and_no_value(feed: Feed, capfd: Any):
    bad = position(feed)

    code = replay(feed)

    out = capfd.readouterr().out
    assert code == 1
    assert out.startswith(f"{bad}: still bad: {bad.replace(':', ', record ')}")
    assert SECRET not in out


def test_a_corrected_record_is_replayed_and_everything_is_complete_again(feed: Feed, tmp_path: Path, capfd: Any):
    bad, corrected = position(feed), tmp_path / "corrected.csv"
    corrected.write_text(f'"I","log","shop",{ts(3)},2,"bob"\n')

    code = replay(feed, "--record", bad, "--with", str(corrected))

    assert code == 0
    assert capfd.readouterr().out == f"{bad}: replayed\nshop: the changelogs gained 1 change.\n"
    record = feed.lake.control.newest()
    assert record is not None
    assert record.complete
    table = feed.lake.catalog.load_table(tuple(record.tables[0].changelog or ()))
    assert table.current_snapshot().snapshot_id == record.tables[0].changelog_snapshot_id
    assert sorted(table.scan().to_arrow().column("name").to_pylist()) == ["ann", "bob"]
    assert main(["run", "--config", str(feed.path)]) == 0
    assert replay(feed) == 0
    assert capfd.readouterr().out.endswith("shop: nothing is in quarantine.\n")


def test_a_replay_of_named_records_that_is_called_again_succeeds_again(feed: Feed, tmp_path: Path, capfd: Any):
    bad, corrected, other = position(feed), tmp_path / "corrected.csv", tmp_path / "other.csv"
    corrected.write_text(f'"I","log","shop",{ts(3)},2,"bob"\n')
    other.write_text(f'"I","log","shop",{ts(3)},2,"carl"\n')
    assert replay(feed, "--record", bad, "--with", str(corrected)) == 0
    snapshots = feed.lake.control.newest()
    capfd.readouterr()

    assert replay(feed, "--record", bad, "--with", str(corrected)) == 0
    assert capfd.readouterr().out == f"{bad}: replayed\nshop: the changelogs gained 0 changes.\n"
    assert feed.lake.control.newest() == snapshots
    for arguments in (["--record", bad, "--with", str(other)], ["--record", bad], ["--discard", bad]):
        assert replay(feed, *arguments) == 1
        assert "found one that was replayed before" in capfd.readouterr().err


def test_a_record_that_is_discarded_again_stays_discarded(feed: Feed, capfd: Any):
    bad = position(feed)

    assert [replay(feed, "--discard", bad) for _ in range(2)] == [0, 0]

    assert capfd.readouterr().out == f"{bad}: discarded\n" * 2
    assert replay(feed, "--record", bad) == 1
    assert "found one that was discarded before" in capfd.readouterr().err


def test_a_discarded_record_does_not_turn_runs_red_any_more(feed: Feed, capfd: Any):
    bad = position(feed)

    code = replay(feed, "--discard", bad)

    assert code == 0
    assert capfd.readouterr().out == f"{bad}: discarded\n"
    assert main(["run", "--config", str(feed.path)]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--with", "README.md"], 2, "one record"),
        (["--record", "nowhere"], 2, "PATH:LINE"),
        (["--record", "a/b.csv:7"], 1, "a record of the quarantine"),
        (["--record", "a/b.csv:7", "--with", "no such file"], 2, "a file with the corrected record"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused_with_one_sentence(
    feed: Feed, capfd: Any, arguments: list[str], code: int, said: str
):
    assert replay(feed, *arguments) == code
    printed = capfd.readouterr().err
    assert said in printed
    assert "Traceback" not in printed
    assert len(feed.lake.control.quarantined()) == 1
