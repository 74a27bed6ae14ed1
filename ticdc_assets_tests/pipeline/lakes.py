"""Lakes for tests: a workload as a changefeed in a folder of its own, run as users run it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets import spark
from ticdc_assets.changes import layout
from ticdc_assets.config import Config, load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing.land import land
from ticdc_assets.pipeline.record import ChangelogReport
from ticdc_assets.pipeline.run import mirrors as mirror_run
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.pipeline.run.mirrors import MirrorReport, run_mirrors
from ticdc_assets.schema.history.source_table import History, NamePeriod, SourceTable
from ticdc_assets.spark import LocalWorkers, SparkWorkers, Workers
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.progress import field_ids_by_uid
from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.protocols.happened import Change, changes
from ticdc_assets_tests.truth import comparable, table_rows, truth_rows, truth_types

Image = tuple[tuple[str, Any], ...] | None


def config_of(workload: Workload, folder: Path, storage: Path, **settings: Any) -> Config:
    """A config file for one workload with a lake of its own."""
    # One Spark session serves the lakes of all tests, so each catalog has a name of its own.
    catalog = "lake_" + hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    variant = workload.variant
    changefeed = {
        "sink_uri": variant["sink_uri"],
        "config": variant["config"],
        "source": {"capture" if storage.suffix == ".jsonl" else "storage": str(storage)},
        "time_zone": workload.time_zone,
        **settings,
    }
    folder.mkdir(parents=True, exist_ok=True)
    lake = {"name": catalog, "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"{folder}/warehouse"}
    path = folder / "changefeeds.yaml"
    path.write_text(
        yaml.safe_dump({"catalog": lake, "spark": {"master": "local[2]"}, "changefeeds": {"feed": changefeed}})
    )
    return load(path, {})


def schema_dumps(workload: Workload, folder: Path) -> list[str]:
    """Dumpling-like schema files of the tables that were there before the changefeed."""
    folder.mkdir(parents=True, exist_ok=True)
    for event in workload.events:
        if event["kind"] == "exists" and event["table"]:
            (folder / f"{event['schema']}.{event['table']}-schema.sql").write_text(event["query"] + ";\n")
    return [str(folder / "*.sql")]


class FeedLake:
    """One workload's changefeed and lake, with what a test asks of them."""

    def __init__(self, workload: Workload, folder: Path, storage: Path | None = None, **settings: Any) -> None:
        self.workload = workload
        if any(event["kind"] == "exists" for event in workload.events) and "schema_files" not in settings:
            settings["schema_files"] = schema_dumps(workload, folder / "schemas")
        capture = workload.root / "messages.jsonl"
        source = storage or (capture if capture.exists() else workload.root / "data")
        self.config = config_of(workload, folder, source, **settings)
        self.lake = Lake(self.config, self.config.changefeed("feed"))

    # -- runs ---------------------------------------------------------------------------------------------------------

    def publish(self, workers: Workers | None = None, until: int | None = None) -> ChangelogReport | None:
        """One run up to the changelogs; None where nothing was pending."""
        lake, workers = Lake(self.config, self.config.changefeed("feed")), workers or LocalWorkers()
        land(lake, workers)
        run = run_of(lake, until)
        pending = run.scan()
        return None if pending.is_empty else run.publish_changelogs(pending, workers)

    def run(self, until: int | None = None) -> MirrorReport | None:
        """One whole run on Spark; None where nothing was pending."""
        session = spark.session(self.config)
        report = self.publish(SparkWorkers(session), until)
        return None if report is None else self.mirrors(report.run_id)

    def mirrors(self, run_id: str = "mirrors") -> MirrorReport | None:
        """Bring the mirrors up to the newest record."""
        session = spark.session(self.config)
        lake = Lake(self.config, self.config.changefeed("feed"))
        return run_mirrors(lake, run_id, lambda: JvmCatalog(session, self.catalog_name))

    def complete_tso(self) -> int:
        """The newest TSO at which all tables can be read together, after the mirrors had their turn (without Spark)."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mirror_run, "pending_work", lambda *arguments, **named: [])
            run_mirrors(self.lake, "test", lambda: None)  # type: ignore[arg-type, return-value]
        newest = self.lake.control.newest(complete=True)
        return newest.tso if newest else 0

    @property
    def catalog_name(self) -> str:
        return self.config.catalog.name

    # -- what is there -------------------------------------------------------------------------------------------------

    @property
    def history(self) -> History:
        return self.lake.history()

    def records(self) -> dict[tuple[str, str], TableRecord]:
        """The tables that are not dropped, by source name."""
        newest = self.lake.control.newest()
        return {(r.schema, r.table): r for r in newest.tables if r.state != "dropped"} if newest else {}

    def changes(self) -> Counter[Change]:
        """Every row of every changelog, as a change."""
        found: Counter[Change] = Counter()
        newest = self.lake.control.newest()
        source_tables = self.history.by_id()
        for record in newest.tables if newest else ():
            if record.changelog is None or record.source_table not in source_tables:
                continue  # none, or one that a statement that came late has replaced
            table = self.lake.catalog.load_table(tuple(record.changelog))
            places = field_ids_by_uid(table.properties)
            names = {uid: table.schema().find_field(ids[0]).name for uid, ids in places.items()}
            for row in table.scan().to_arrow().to_pylist():
                found[_change(source_tables[record.source_table], row, names)] += 1
        return found

    def mirror_rows(self, record: TableRecord, names: list[str], snapshot_id: int | None = None) -> Counter:
        table = self.lake.catalog.load_table(tuple(record.mirror or ()))
        return table_rows(table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist(), names)

    def snapshots(self) -> int:
        """How many snapshots all tables of the lake have."""
        catalog = self.lake.catalog
        tables = [catalog.load_table(t) for n in catalog.list_namespaces() for t in catalog.list_tables(n)]
        return sum(len(table.snapshots()) for table in tables)

    def differences(self, ts: int) -> list[str]:
        """The differences between the mirrors and the truth at `ts`."""
        records = self.records()
        entries = [entry for entry in self.workload.truth if entry["ts"] == ts and not self._has_no_event(entry)]
        wrong = [
            f"{name} should not be there" for name in records.keys() - {(e["schema"], e["table"]) for e in entries}
        ]
        for entry in entries:
            record = records.get((entry["schema"], entry["table"]))
            wrong.extend(self._differences(entry, record))
        return wrong

    def _has_no_event(self, entry: dict[str, Any]) -> bool:
        """Whether a table is older than the changefeed, and the stream has no event of it yet."""
        name = (entry["schema"], entry["table"])
        of_it = [event for event in self.workload.events if (event.get("schema"), event.get("table")) == name]
        happened = any(e["kind"] in ("dml", "ddl") and e["commit_ts"] <= entry["ts"] for e in of_it)
        return not happened and any(event["kind"] == "exists" for event in of_it) and name not in self.records()

    def recorded_differences(self, ts: int) -> list[str]:
        """The same for the snapshots that were recorded at `ts`, wherever the mirrors are called by now."""
        record, newest = self.lake.control.at(ts), self.lake.control.newest()
        if record is None or newest is None or record.tso != ts:
            return [f"nothing is recorded at {ts}"]
        present = {r.source_table: r for r in newest.tables}
        tables = {(r.schema, r.table): r for r in record.tables if r.state != "dropped"}
        first_events = ((r.source_table, r.source_table.rpartition("@")[2]) for r in record.tables)
        early = (name for name, first_ts in first_events if first_ts.isdigit() and int(first_ts) > ts)
        wrong = [f"{name} is recorded before it begins" for name in early]
        for entry in (entry for entry in self.workload.truth if entry["ts"] == ts and entry["key"]):
            if not entry["rows"] and (entry["schema"], entry["table"]) not in tables:
                continue  # `differences` has said whether it may be missing
            recorded = tables[entry["schema"], entry["table"]]
            names = list(truth_types(entry))
            found = self.mirror_rows(present[recorded.source_table], names, recorded.mirror_snapshot_id)
            if found != truth_rows(entry, self.workload.time_zone):
                wrong.append(f"{entry['schema']}.{entry['table']}")
        return wrong

    def _differences(self, entry: dict[str, Any], record: TableRecord | None) -> Iterator[str]:
        name = f"{entry['schema']}.{entry['table']}"
        if record is None:
            yield f"{name} is missing"
            return
        if not entry["key"]:
            if record.mirror is not None:
                yield f"{name} has no key, and yet a mirror"
            return
        if record.mirror is None:
            yield f"{name} has no mirror: {record.note}"
            return
        names = list(truth_types(entry))
        table = self.lake.catalog.load_table(tuple(record.mirror))
        columns = [f.name for f in table.schema().fields if f.name != layout.COMMIT_TS]
        if columns != names:
            yield f"{name} has the columns {columns}, not {names}"
            return
        if list(record.key) != entry["key"]:
            yield f"{name} has the key {record.key}, not {entry['key']}"
        wanted, found = truth_rows(entry, self.workload.time_zone), self.mirror_rows(record, names)
        if wanted != found:
            yield f"{name}: missing {list((wanted - found).items())[:1]}, too much {list((found - wanted).items())[:1]}"


def _change(source_table: SourceTable, row: dict[str, Any], names: dict[int, str]) -> Change:
    commit_ts = row[layout.COMMIT_TS]
    written = (v for v in source_table.versions if v.from_ts == row[layout.TABLE_VERSION])
    version = next(written, None) or source_table.version_at(commit_ts)
    columns = [(c.name, names[c.uid]) for c in version.table.stored_columns]
    if commit_ts is None:
        schema, table = source_table.name_periods[0].schema, source_table.name_periods[0].table
    else:
        # Where a stream tells no statements, name periods are by place; a wrong name shows in the comparison.
        name_period = next((t for t in source_table.name_periods if _holds(t, commit_ts)), source_table.name_periods[0])
        schema, table = name_period.schema, name_period.table
    now = tuple(sorted((source, comparable(row[lake])) for source, lake in columns))
    before = row[layout.BEFORE]
    old = None if before is None else tuple(sorted((source, comparable(before[lake])) for source, lake in columns))
    return Change(schema, table, row[layout.OP], commit_ts, now, old, version.table.partitioning is not None)


def _holds(name_period: NamePeriod, commit_ts: int) -> bool:
    return name_period.after_ts < commit_ts and (not name_period.until_ts or commit_ts <= name_period.until_ts)


def expected_changes(workload: Workload, old_values: bool) -> Counter[Change]:
    """What the changelogs must hold: every change once, old values only where the stream sends them."""
    happened = [c if old_values else c._replace(old=None) for c in changes(workload)]
    found = Counter(c._replace(new=_plain(c.new), old=_plain(c.old)) for c in happened)
    # A log with restarts has repeated changes twice; otherwise no two of its changes are equal.
    restarts = any(event["kind"] == "restart" for event in workload.events)
    return Counter(found.keys()) if restarts else found


def _plain(image: Image) -> Image:
    return None if image is None else tuple((name, comparable(cell)) for name, cell in image)


class Replay:
    """Writes a workload's bucket file by file, as TiCDC did."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        self._data = workload.root / "data"
        self.folder = folder
        lines = (workload.root / "timeline.jsonl").read_text().splitlines()
        self._writes = [json.loads(line) for line in lines]
        self.at = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def is_over(self) -> bool:
        return self.at >= len(self._writes)

    def write(self, count: int = 1) -> None:
        for number, entry in enumerate(self._writes[self.at : self.at + count], start=self.at):
            target = self.folder / entry["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            if "content" in entry:
                target.write_text(entry["content"])
            elif target.suffix == ".index":
                target.write_text(f"{self._named_by_index(number)}\n")
            else:
                shutil.copyfile(self._data / entry["path"], target)
        self.at += count

    def _named_by_index(self, number: int) -> str:
        """An index is written again before every data file, whose name it holds; the bucket has only its last form."""
        folder = Path(self._writes[number]["path"]).parents[1]
        later = (Path(entry["path"]) for entry in self._writes[number + 1 :])
        return next(path.name for path in later if path.parent == folder)

    @property
    def checkpoint(self) -> int:
        metadata = self.folder / "metadata"
        return json.loads(metadata.read_text())["checkpoint-ts"] if metadata.exists() else 0
