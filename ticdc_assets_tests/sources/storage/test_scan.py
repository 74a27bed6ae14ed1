"""The storage source over real buckets: at their end, and as they grew write by write."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.sources.storage.paths import Layout
from ticdc_assets.sources.storage.scan import Cursor, Scan, peek, read_checkpoint, scan, tables
from ticdc_assets_tests.fixtures import Workload, needs_fixtures, read_jsonl, workloads
from ticdc_assets_tests.sources.storage.bucket import CountingRoot

STORAGE = workloads("storage-")
by_workload = pytest.mark.parametrize("workload", STORAGE, ids=lambda w: w.name)
pytestmark = pytest.mark.skipif(not STORAGE, reason="no storage workloads on this machine")


def layout_of(workload: Workload) -> Layout:
    separator = workload.variant["config"]["sink"].get("date-separator", "day")
    return Layout(separator, "csv" if "protocol=csv" in workload.variant["sink_uri"] else "json")


def on_disk(workload: Workload, pattern: str) -> set[str]:
    data = workload.root / "data"
    return {path.relative_to(data).as_posix() for path in data.rglob(pattern)}


@by_workload
def test_the_empty_cursor_finds_exactly_the_files_on_disk(workload: Workload) -> None:
    found = scan(open_root(str(workload.root / "data")), layout_of(workload), Cursor.empty())

    assert {f.path for f in found.data} == on_disk(workload, "CDC[0-9]*")
    assert len({f.path for f in found.data}) == len(found.data)
    assert {f.where for f in found.schema_files} == on_disk(workload, "schema_*.json")
    assert found.problems == ()
    assert found.notes == ()
    assert all(f.size == (workload.root / "data" / f.path).stat().st_size for f in found.data)
    assert all(file.checksum_ok for file in found.schema_files)


@by_workload
def test_files_come_by_version_and_number_and_name_the_tables_of_the_truth(workload: Workload) -> None:
    found = scan(open_root(str(workload.root / "data")), layout_of(workload), Cursor.empty())
    orders = [(f.version, f.schema, f.table, f.partition_id or -1, f.date or "", f.number) for f in found.data]
    named = {(f.schema, f.table) for f in found.schema_files if f.table}

    assert orders == sorted(orders)
    assert {(line["schema"], line["table"]) for line in workload.truth if line["rows"]} <= named
    assert {(f.schema, f.table) for f in found.data} <= named
    assert [f.version for f in found.schema_files] == sorted(f.version for f in found.schema_files)
    assert named == set(tables(open_root(str(workload.root / "data")), layout_of(workload)))


@by_workload
def test_nothing_new_is_found_in_few_requests(workload: Workload) -> None:
    layout = layout_of(workload)
    root = CountingRoot(open_root(str(workload.root / "data")))
    first = scan(root, layout, Cursor.empty())
    cursor = Cursor.empty().advance(first, first.data)
    counting = CountingRoot(root.inner)

    again = scan(counting, layout, Cursor.from_json(cursor.to_json()))

    assert (again.data, again.schema_files, again.problems) == ((), (), ())
    assert cursor.advance(again, ()) == cursor
    for table in (t for t in again.tables if t.table):
        opened = cursor.tables[table.folder].open.values()
        listed = [f"{table.folder}/{version}" for version in cursor.tables[table.folder].open] if layout.dated else []
        partitions = {place.split("/")[0] for v in opened for place, _ in v.done if place.count("/") == layout.dated}
        folders = sum(len(version.done) for version in opened)
        # the folder, its meta, its versions' dates or partitions; then for each data folder an index, a last file and
        # the one behind it; and where new files come, what indexes there are
        newest = sum(len({place.rpartition("/")[0] if layout.dated else place for place, _ in v.done}) for v in opened)
        most = 2 + max(len(listed), len(opened)) + len(partitions) * layout.dated + 3 * folders + newest
        assert counting.requests_below(table.folder) <= most
        assert sum(n for path, n in counting.reads.items() if path.startswith(f"{table.folder}/")) == folders


@by_workload
def test_a_sensors_tick_costs_at_most_three_requests_a_table_and_partition(workload: Workload) -> None:
    root = CountingRoot(open_root(str(workload.root / "data")))
    layout = layout_of(workload)

    checkpoint, digest = peek(root, layout)

    assert checkpoint == read_checkpoint(root)
    assert digest == peek(root, layout)[1]
    state = CountingRoot(root.inner)
    peek(state, layout)
    partitions = Counter(f.path.split("/")[1] for f in scan(root, layout, Cursor.empty()).data if f.partition_id)
    for schema, table in tables(root, layout):
        if table not in partitions:
            assert state.requests_below(f"{schema}/{table}") <= 3
    assert all(not path.endswith((".csv", ".json")) for path in state.reads)


class Replay:
    """Writes a workload's bucket again, in the order in which TiCDC wrote it."""

    def __init__(self, workload: Workload, target: Path) -> None:
        self.source = workload.root / "data"
        self.target = target
        self.writes = list(read_jsonl(workload.root / "timeline.jsonl"))

    def write(self, position: int) -> None:
        entry = self.writes[position]
        path = self.target / entry["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        if "content" in entry:
            path.write_text(entry["content"])
        elif entry["path"].endswith(".index"):
            path.write_text(self._indexed(entry["path"].removesuffix("meta/CDC.index"), position) + "\n")
        else:
            path.write_bytes((self.source / entry["path"]).read_bytes())

    def _indexed(self, folder: str, position: int) -> str:
        """TiCDC writes the index before the file it names."""
        later = (w["path"].removeprefix(folder) for w in self.writes[position:] if w["path"].startswith(folder))
        return next(name for name in later if "/" not in name)


AT_EVERY_WRITE = ("storage-csv-special/seed1", "storage-canal-json-tidb-restart/seed1", "storage-csv-restart/seed2")
PACES = [(w, 17) for w in STORAGE] + [(w, 1) for w in STORAGE if w.name in AT_EVERY_WRITE]


@needs_fixtures
@pytest.mark.parametrize(("workload", "every"), PACES, ids=lambda value: getattr(value, "name", value))
def test_a_growing_bucket_gives_every_file_exactly_once(workload: Workload, every: int, tmp_path: Path) -> None:
    replay, layout, cursor = Replay(workload, tmp_path), layout_of(workload), Cursor.empty()
    seen: Counter[str] = Counter()
    schemas: Counter[str] = Counter()
    waited = 0
    for position in range(len(replay.writes)):
        replay.write(position)
        if position % every and position != len(replay.writes) - 1:
            continue
        found = scan(open_root(str(tmp_path)), layout, cursor)
        assert all(problem.kind == "waiting" for problem in found.problems)
        waited += len(found.problems)
        seen.update(f.path for f in found.data)
        schemas.update(f.where for f in free(found))
        cursor = Cursor.from_json(cursor.advance(found, found.data).to_json())

    assert_only_repeats(workload, on_disk(workload, "CDC[0-9]*") - set(seen), seen)
    assert set(seen.values()) == {1}
    assert set(schemas) == on_disk(workload, "schema_*.json")
    assert set(schemas.values()) == {1}
    assert waited or every != 1
    assert len(cursor.to_json()) < 400 * len(cursor.tables)


def assert_only_repeats(workload: Workload, unseen: set[str], seen: Counter[str]) -> None:
    """After a restart TiCDC sends rows again, also into folders of versions that are over: nothing new can be there."""
    assert not unseen or "restart" in workload.name
    for path in unseen:
        version = "/".join(path.split("/")[:3])
        known = {row for p in seen if p.startswith(f"{version}/") for row in rows(workload.root / "data" / p)}
        assert rows(workload.root / "data" / path) <= known


def rows(path: Path) -> set[str]:
    lines = path.read_bytes().decode().splitlines()
    if path.suffix == ".csv":
        return set(lines)
    parsed = (json.loads(line) for line in lines)
    return {json.dumps([p["type"], p["data"], p["old"], p["_tidb"]], sort_keys=True) for p in parsed}


def free(found: Scan) -> list:
    return [file for table in found.tables if not table.problems for file in table.schema_files]


@needs_fixtures
@pytest.mark.parametrize("workload", [w for w in STORAGE if w.name.endswith("seed1")], ids=lambda w: w.name)
def test_files_with_rows_above_the_watermark_come_again_until_they_are_consumed(
    workload: Workload, tmp_path: Path
) -> None:
    replay, layout, cursor = Replay(workload, tmp_path), layout_of(workload), Cursor.empty()
    consumed: Counter[str] = Counter()
    offered: Counter[str] = Counter()
    for position in range(len(replay.writes)):
        replay.write(position)
        if position % 29 and position != len(replay.writes) - 1:
            continue
        found = scan(open_root(str(tmp_path)), layout, cursor)
        offered.update(f.path for f in found.data)
        last = position == len(replay.writes) - 1
        fully = [f for f in found.data if last or offered[f.path] > f.number % 3]
        consumed.update(counted(fully, found))
        cursor = cursor.advance(found, fully)

    assert_only_repeats(workload, on_disk(workload, "CDC[0-9]*") - set(consumed), consumed)
    assert set(consumed.values()) == {1}
    assert max(offered.values()) > 1 or len(offered) < 20


def counted(fully: list, found: Scan) -> list[str]:
    """The files that an advance over `fully` passes: up to the first of their folder that is not among them."""
    chosen = {f.path for f in fully}
    passed = []
    for table in found.tables:
        for folders in table.versions.values():
            for folder in folders:
                number = folder.after(chosen).number
                passed += [f.path for f in folder.files if f.number <= number]
    return passed


@needs_fixtures
@by_workload
def test_a_lower_checkpoint_leaves_later_versions_for_later(workload: Workload) -> None:
    root, layout = open_root(str(workload.root / "data")), layout_of(workload)
    whole = scan(root, layout, Cursor.empty())
    middle = sorted(f.version for f in whole.schema_files)[len(whole.schema_files) // 2]

    first = scan(root, layout, Cursor.empty(), checkpoint_ts=middle)
    cursor = Cursor.empty().advance(first, first.data)
    second = scan(root, layout, cursor)

    assert all(f.version <= middle for f in first.schema_files)
    assert all(f.version <= middle for f in first.data)
    assert {*first.schema_files, *second.schema_files} == set(whole.schema_files)
    assert sorted(f.path for f in (*first.data, *second.data)) == sorted(f.path for f in whole.data)


def test_the_digest_changes_with_every_write_that_brings_rows_or_a_schema(tmp_path: Path) -> None:
    workload = next(w for w in STORAGE if w.name.startswith("storage-csv/"))
    replay, layout = Replay(workload, tmp_path), layout_of(workload)
    before = ""
    for position, entry in enumerate(json.loads(json.dumps(replay.writes))[:80]):
        replay.write(position)
        digest = peek(open_root(str(tmp_path)), layout)[1]
        if entry["path"].endswith(".index") or "/meta/schema_" in entry["path"]:
            assert digest != before
        before = digest
