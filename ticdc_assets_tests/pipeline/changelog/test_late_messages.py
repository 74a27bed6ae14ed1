"""Messages that no run has read, with rows at or below their table's watermark: late rows, or repeats."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.failpoints import Failpoint
from ticdc_assets.pipeline.stream.decode.worker import decode_messages
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.deliveries.wires import CanalJson, Debezium, OpenProtocol, SimpleJson, Wire
from ticdc_assets_tests.fixtures import Workload, of_full_set, workloads
from ticdc_assets_tests.pipeline.changelog.findings import total
from ticdc_assets_tests.pipeline.faults.raced import at as at_moment
from ticdc_assets_tests.pipeline.lakes import FeedLake, expected_changes
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream, at, ids, shape, states

WIRES: tuple[Callable[[], Wire], ...] = (CanalJson, OpenProtocol, SimpleJson, Debezium)
RESTARTS = [w for w in workloads(seed="seed1") if w.root.parent.name in ("canal-json-tidb-restart", "open-restart")]
CLAIMS = [w for w in workloads(seed="seed1") if (w.root / "claim-check").is_dir()]
A, B = shape("a"), shape("b")


def begun(folder: Path, wire: Wire | None = None, binary: bool = True) -> SmallStream:
    """A stream whose table `a` has rows 1 and 2 up to tick 9."""
    stream = SmallStream(folder, wire or CanalJson(), binary=binary)
    stream.create(1, A)
    stream.bootstrap(A)
    stream.put(5, A, 1)
    stream.put(6, A, 2)
    stream.watermark(9)
    return stream


def send_watermark(stream: SmallStream, tick: int, partition: int) -> None:
    stream.send(TOPIC, partition, stream.wire.watermark(at(tick)))


def late(lake: FeedLake) -> int:
    report = lake.publish()
    assert report is not None
    return sum(report.late_rows.values())


def assert_quiet(lake: FeedLake) -> None:
    snapshots = lake.snapshots()
    assert lake.publish() is None
    assert lake.snapshots() == snapshots


class Watched(LocalWorkers):
    """Workers that note what they were asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Callable[..., Any]] = []

    def map(self, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        self.asked += [work] if payloads else []
        return super().map(work, payloads)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.__name__)
def test_a_partition_that_joins_with_older_rows_is_taken_in(tmp_path: Path, wire: Callable[[], Wire]):
    stream = begun(tmp_path, wire())
    lake = stream.lake()
    lake.publish()

    stream.put(3, A, 3, partition=1)
    stream.put(8, A, 4, partition=1)
    send_watermark(stream, 9, 1)

    assert late(lake) == 2
    assert ids(lake) == {"a": [1, 2, 3, 4]}
    assert states(lake) == {"a": "live"}
    assert_quiet(lake)


def test_a_partition_that_leaves_the_capture_comes_back_with_older_rows(tmp_path: Path):
    stream = begun(tmp_path)
    stream.put(4, A, 3, partition=1)
    send_watermark(stream, 9, 1)
    lake = stream.lake()
    lake.publish()
    file, kept = stream.capture / f"{TOPIC}-1.bin", tmp_path / "kept"
    shutil.move(file, kept)
    stream.put(12, A, 4)
    stream.watermark(20)
    lake.publish()

    shutil.move(kept, file)
    stream.put(11, A, 5, partition=1)
    stream.put(25, A, 6, partition=1)
    send_watermark(stream, 30, 1)
    stream.watermark(30)
    lake.publish()

    assert ids(lake) == {"a": [1, 2, 3, 4, 5, 6]}
    assert states(lake) == {"a": "live"}
    assert_quiet(lake)


@pytest.mark.parametrize("is_cut", [False, True], ids=["is away", "is cut"])
@pytest.mark.parametrize("is_another_held", [False, True], ids=["", "another table is held"])
def test_rows_above_the_watermark_are_late_if_it_passes_them_while_their_partition_is_away(
    tmp_path: Path, is_cut: bool, is_another_held: bool
):
    """Their messages were read before, when they were above the watermark: they are no repeats for that."""
    stream = begun(tmp_path)
    if is_another_held:
        stream.create(2, B)
        stream.ddl(7, "ALTER TABLE `s`.`b` BEFUDDLE", B)
    stream.put(4, A, 3, partition=1)
    length = (stream.capture / f"{TOPIC}-1.bin").stat().st_size
    stream.put(15, A, 4, partition=1)
    send_watermark(stream, 20, 1)
    lake = stream.lake()
    lake.publish()
    file, kept = stream.capture / f"{TOPIC}-1.bin", tmp_path / "kept"
    shutil.move(file, kept)
    if is_cut:
        file.write_bytes(kept.read_bytes()[:length])
    stream.watermark(20)
    lake.publish()
    assert ids(lake) == {"a": [1, 2, 3]}

    shutil.move(kept, file)

    assert late(lake) == 1
    lake.publish()
    assert ids(lake) == {"a": [1, 2, 3, 4]}
    assert states(lake)["a"] == "live"


def test_late_and_new_rows_of_one_file_and_of_a_dropped_and_a_renamed_table(tmp_path: Path):
    stream = begun(tmp_path)
    stream.create(2, B)
    stream.put(5, B, 1)
    stream.drop(7, B)
    renamed = shape("c", version=8)
    stream.rename(8, A, renamed)
    stream.watermark(9)
    lake = stream.lake()
    lake.publish()

    stream.put(4, A, 3, partition=1)
    stream.put(6, B, 2, partition=1)
    stream.put(9, renamed, 4, partition=1)
    stream.put(15, renamed, 5, partition=1)
    send_watermark(stream, 20, 1)
    stream.watermark(20)

    assert late(lake) == 3
    assert {(c.table, dict(c.new or ())["id"]) for c in lake.changes()} == {
        ("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("c", 4), ("c", 5),
    }  # fmt: skip
    assert sum(lake.changes().values()) == 7
    assert_quiet(lake)


def test_a_run_that_broke_at_late_messages_is_repeated(tmp_path: Path):
    stream = begun(tmp_path)
    lake = stream.lake()
    lake.publish()
    stream.put(3, A, 3, partition=1)
    send_watermark(stream, 9, 1)

    def broken() -> None:
        raise BrokenRunError

    with at_moment(Failpoint.AFTER_CHANGELOG_COMMIT, broken), pytest.raises(BrokenRunError):
        lake.publish()
    assert late(lake) == 1  # of the run that could not distinguish them

    assert ids(lake) == {"a": [1, 2, 3]}
    assert_quiet(lake)


# -- repeats stay repeats ---------------------------------------------------------------------------------------------


def test_messages_that_wait_above_the_watermark_cost_no_look_at_the_changelog(tmp_path: Path):
    stream = begun(tmp_path, binary=False)
    stream.put(15, A, 3)
    stream.put(8, A, 2)  # behind a row that waits, so that it is read again until then
    lake, workers = stream.lake(), Watched()
    lake.publish(workers)
    asked = len(workers.asked)
    report = lake.publish(workers)
    assert report is None or (report.late_rows, report.rows_by_op) == ({}, {})
    assert workers.asked[asked:] in ([], [decode_messages])

    stream.watermark(20)
    report = lake.publish(workers)

    assert report is not None
    assert total(report).repeats == 1
    assert workers.asked[asked:].count(decode_messages) == len(workers.asked[asked:])
    assert ids(lake) == {"a": [1, 2, 2, 3]}


def test_what_a_restart_sends_again_is_counted_and_nothing_else(tmp_path: Path):
    stream = begun(tmp_path)
    lake = stream.lake()
    lake.publish()

    stream.watermark(2)
    stream.put(5, A, 1)
    stream.put(6, A, 2)
    stream.watermark(9)
    report = lake.publish()

    assert report is not None
    assert (total(report).repeats, report.late_rows, report.rows_by_op) == (2, {}, {})
    assert ids(lake) == {"a": [1, 2]}


def test_a_table_that_is_asked_for_again_has_what_came_late_meanwhile(tmp_path: Path):
    stream = begun(tmp_path)
    stream.create(1, B)
    stream.put(5, B, 1)
    stream.watermark(9)
    stream.lake(tables=["s.*"]).publish()
    for table in (A, B):
        stream.put(3, table, 7, partition=1)
    send_watermark(stream, 9, 1)
    stream.put(11, A, 8)
    stream.watermark(20)
    send_watermark(stream, 20, 1)
    stream.lake(tables=["s.a"]).publish()
    lake = stream.lake(tables=["s.*"])
    stream.put(22, A, 9)
    stream.watermark(30)
    send_watermark(stream, 30, 1)

    lake.publish()

    assert ids(lake) == {"a": [1, 2, 7, 8, 9], "b": [1, 7]}
    assert_quiet(lake)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.__name__)
def test_a_row_without_a_key_that_comes_twice_after_two_restarts_is_a_repeat(tmp_path: Path, wire: Callable[[], Wire]):
    """No watermark comes between the two, so that nothing distinguishes the two deliveries."""
    keyless = replace(shape("log"), key=None)
    stream = SmallStream(tmp_path, wire(), binary=True)
    stream.create(1, keyless)
    stream.bootstrap(keyless)
    stream.put(5, keyless, 1)
    stream.watermark(9)
    lake = stream.lake()
    lake.publish()

    stream.watermark(2)
    stream.put(5, keyless, 1)
    stream.put(5, keyless, 1)
    stream.put(7, keyless, 2)
    stream.watermark(20)

    assert late(lake) == 1
    assert ids(lake) == {"log": [1, 2]}


@pytest.mark.parametrize("workload", of_full_set(RESTARTS))
def test_a_restarting_stream_that_arrives_in_steps_has_no_late_rows(workload: Workload, tmp_path: Path):
    capture = tmp_path / "messages.jsonl"
    sent = (workload.root / "messages.jsonl").read_text().splitlines(keepends=True)
    lake = FeedLake(workload, tmp_path / "lake", capture)
    repeats = 0
    for end in range(0, len(sent) + 150, 150):
        capture.write_text("".join(sent[:end]))
        report = lake.publish() if end else None
        if report is not None:
            assert report.late_rows == {}
            repeats += total(report).repeats

    assert repeats
    assert lake.changes() == expected_changes(workload, old_values=True)


@pytest.mark.parametrize("workload", of_full_set(CLAIMS))
def test_large_rows_that_come_again_need_no_claim_check_file(workload: Workload, tmp_path: Path):
    """The files are gone by then: only rows that the changelog lacks would need them."""
    root = tmp_path / "workload"
    shutil.copytree(workload.root, root)
    sent = [json.loads(line) for line in (root / "messages.jsonl").read_text().splitlines()]
    lake = FeedLake(workload, tmp_path / "lake", root / "messages.jsonl", claim_check=str(root / "claim-check"))
    lake.publish()
    found = lake.changes()

    ends = {(m["topic"], m["partition"]): m["offset"] + 1 for m in sent}
    again = [{**m, "offset": m["offset"] + ends[m["topic"], m["partition"]] - firsts(sent, m)} for m in sent]
    with (root / "messages.jsonl").open("a") as capture:
        capture.writelines(json.dumps(message) + "\n" for message in again)
    shutil.rmtree(root / "claim-check")
    report = lake.publish()

    assert report is not None
    assert report.late_rows == {}
    assert total(report).repeats >= sum(found.values())
    assert lake.changes() == found


def firsts(sent: list[dict[str, Any]], message: dict[str, Any]) -> int:
    """The first offset of a message's partition."""
    place = (message["topic"], message["partition"])
    return int(next(m["offset"] for m in sent if (m["topic"], m["partition"]) == place))
