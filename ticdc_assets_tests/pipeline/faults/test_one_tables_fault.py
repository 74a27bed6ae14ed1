"""An error of Spark, Iceberg, Arrow or Java that concerns one table holds that table, and the others continue."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from ticdc_assets import spark
from ticdc_assets.errors import LakeError, StaleRunError, UnexpectedError
from ticdc_assets.faults import DEBUG_VARIABLE, note_frames, of_one_table
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets_tests.canaries import ROW_CANARY
from ticdc_assets_tests.deliveries.wires import CanalJson
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import SmallStream, shape, states

A, B, C = shape("a"), shape("b"), shape("c")


def made(folder: Path) -> tuple[SmallStream, FeedLake]:
    """Three tables with a mirror each, and more changes of all of them that no run has seen."""
    stream = SmallStream(folder)
    lake = stream.lake()
    for table in (A, B, C):
        stream.create(1, table)
        stream.put(2, table, 1)
    stream.watermark(5)
    lake.run()
    for table in (A, B, C):
        stream.put(6, table, 2)
    stream.watermark(9)
    return stream, lake


def rows(lake: FeedLake) -> dict[str, int | None]:
    return {name: record.rows for (_, name), record in lake.records().items()}


def files_of(lake: FeedLake, part: str, table: str = "a") -> list[Path]:
    record = lake.records()["s", table]
    found = lake.lake.catalog.load_table(tuple(getattr(record, part) or ()))
    return sorted(Path(found.location().removeprefix("file:")).glob("data/**/*.parquet"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


HARMS: dict[str, Callable[[FeedLake], None]] = {
    "a mirror's metadata are gone": lambda lake: Path(_metadata(lake, "mirror")).unlink(),
    "a mirror's metadata are no JSON": lambda lake: Path(_metadata(lake, "mirror")).write_text("{"),
    "a mirror's files are cut": lambda lake: [cut(path) for path in files_of(lake, "mirror")] and None,
}


def _metadata(lake: FeedLake, part: str) -> str:
    record = lake.records()["s", "a"]
    table = load_or_none(lake.lake.catalog, tuple(getattr(record, part) or ()))
    assert table is not None
    return table.metadata_location.removeprefix("file://").removeprefix("file:")


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_mirror_that_is_damaged_is_held_alone(harm: Callable[[FeedLake], None], tmp_path: Path):
    _, lake = made(tmp_path)
    harm(lake)

    lake.run()

    records = lake.records()
    assert records["s", "a"].state == "stopped"
    assert records["s", "a"].note.startswith("its mirror: ")
    assert {name: count for name, count in rows(lake).items() if name != "a"} == {"b": 2, "c": 2}
    assert states(lake) == {"a": "stopped", "b": "live", "c": "live"}


@pytest.mark.spark
def test_a_changelog_that_is_damaged_is_held_alone(tmp_path: Path):
    _, lake = made(tmp_path)
    folder = Path(_metadata(lake, "changelog")).parent
    for path in folder.glob("*.avro"):
        path.unlink()

    lake.run()

    assert states(lake)["a"] == "stopped"
    assert {name: count for name, count in rows(lake).items() if name != "a"} == {"b": 2, "c": 2}


@pytest.mark.spark
def test_a_key_that_rows_lack_holds_its_table_and_names_the_column(tmp_path: Path):
    """ADD PRIMARY KEY over a column with a zero date: TiDB has a row that no mirror can hold."""
    stream = SmallStream(tmp_path)
    lake = stream.lake()
    stream.create(1, B)
    stream.put(2, B, 1)
    stream.ddl(1, "CREATE TABLE `a` (`id` INT NOT NULL,`d` DATE NOT NULL,PRIMARY KEY(`id`))", A)
    for tick, number, day in ((2, 1, "0000-00-00"), (3, 2, "2024-01-01")):
        stream.send("feed", 0, *_dated(tick, number, day))
    stream.ddl(4, "ALTER TABLE `a` DROP PRIMARY KEY, ADD PRIMARY KEY(`d`)", A)
    stream.watermark(9)

    report = lake.run()

    assert report is not None
    assert states(lake) == {"a": "stopped", "b": "live"}
    assert "column 'd'" in lake.records()["s", "a"].note
    assert rows(lake)["b"] == 1


def _dated(tick: int, number: int, day: str) -> list[Any]:
    from ticdc_assets_tests.deliveries.database import Column, RowChange
    from ticdc_assets_tests.pipeline.small_streams import at

    dated = shape("a", Column("d", "VARCHAR(10)"))
    [(key, value)] = CanalJson().rows([RowChange(at(tick), dated, "I", {"id": number, "name": "x", "d": day})])
    message = json.loads(value or b"")
    for member in (message["sqlType"], message["mysqlType"], message["data"][0]):
        del member["name"]
    message["mysqlType"]["d"] = "date"
    return [(key, json.dumps(message, separators=(",", ":")).encode())]


# -- Avro: another table takes a name --------------------------------------------------------------------------------


def _schema(table: str, fields: dict[str, str]) -> str:
    types = {"int": "INT", "string": "TEXT"}
    members = [
        {"name": n, "type": {"type": t, "connect.parameters": {"tidb_type": types[t]}}} for n, t in fields.items()
    ]
    return json.dumps({"type": "record", "name": table, "namespace": "default.s", "fields": members})


def _datum(*cells: int | str) -> bytes:
    def number(value: int) -> bytes:
        zigzag, out = (value << 1) ^ (value >> 63), bytearray()
        while zigzag > 0x7F:
            out.append(zigzag & 0x7F | 0x80)
            zigzag >>= 7
        return bytes([*out, zigzag])

    return b"".join(number(c) if isinstance(c, int) else number(len(c)) + c.encode() for c in cells)


class AvroStream(SmallStream):
    """An Avro stream without statements, each table in a topic of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.schemas: list[str] = []

    def row(self, table: str, fields: dict[str, str], *cells: int | str) -> None:
        key = dict(list(fields.items())[:1])
        ids = [self._id(_schema(table, of)) for of in (key, fields)]
        framed = [b"\0" + struct.pack(">i", number) for number in ids]
        self.send(f"tidb_s_{table}", 0, (framed[0] + _datum(cells[0]), framed[1] + _datum(*cells)))

    def _id(self, schema: str) -> int:
        if schema not in self.schemas:
            self.schemas.append(schema)
        entries = [{"id": n, "subject": "x", "version": 1, "schema": s} for n, s in enumerate(self.schemas, start=1)]
        (self.folder / "registry.json").write_text(json.dumps(entries))
        return self.schemas.index(schema) + 1


class _Avro(CanalJson):
    sink_uri = "kafka://host/feed?protocol=avro"


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("is_apart", [False, True], ids=["one run", "a run each"])
def test_a_table_of_another_key_type_that_takes_a_name_begins_again_and_the_others_have_their_mirrors(
    is_apart: bool, tmp_path: Path
):
    config = {"sink": {"dispatchers": [{"matcher": ["*.*"], "topic": "tidb_{schema}_{table}"}]}}
    stream = AvroStream(tmp_path, _Avro(), config)
    lake = stream.lake(schema_registry={"file": str(tmp_path / "registry.json")})
    stream.row("a", {"id": "int", "v": "string"}, 1, "x")
    stream.row("b", {"id": "int", "v": "string"}, 1, "x")
    if is_apart:
        lake.run()
    stream.row("a", {"id": "string", "v": "string"}, "k", "y")
    stream.row("b", {"id": "int", "v": "string"}, 2, "y")

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    assert rows(lake) == {"a": 1, "b": 2}
    table = lake.lake.catalog.load_table(tuple(lake.records()["s", "a"].mirror or ()))
    assert [row["id"] for row in table.scan().to_arrow().to_pylist()] == ["k"]


# -- what is reported --------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.spark
def test_an_error_of_java_has_its_class_and_place_and_the_log_has_its_frames_without_a_value(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    _, lake = made(tmp_path)
    session = spark.session(lake.config)
    with pytest.raises(PySparkException) as raised:
        session.sql(f"SELECT CAST('{ROW_CANARY}' AS INT)").collect()
    monkeypatch.delenv(DEBUG_VARIABLE, raising=False)
    capfd.readouterr()

    fault = of_one_table(raised.value)

    printed = capfd.readouterr().err
    assert "CAST_INVALID_INPUT" in str(fault)
    assert ".java:" in str(fault) or ".scala:" in str(fault)
    assert "org.apache.spark" in printed
    assert "in test_an_error_of_java" in printed
    assert ROW_CANARY not in printed + str(fault)

    monkeypatch.setenv(DEBUG_VARIABLE, "1")
    note_frames(raised.value)
    assert ROW_CANARY in capfd.readouterr().err


def test_what_is_not_of_one_table_is_raised_again():
    outages: list[Exception] = [
        OSError(28, "no room"),
        PermissionError(13, "no right"),
        ConnectionRefusedError(111, "nobody there"),
        ConnectionResetError(),
        TimeoutError(),
        StaleRunError("here", "this", "that", "Run again."),
        MemoryError(),
    ]
    for error in outages:
        with pytest.raises(type(error)):
            of_one_table(error)
    assert isinstance(of_one_table(ValueError(ROW_CANARY)), UnexpectedError)
    assert isinstance(of_one_table(FileNotFoundError(2, "gone", "/x/y")), LakeError)
    assert ROW_CANARY not in str(of_one_table(ValueError(ROW_CANARY)))


@pytest.mark.spark
def test_the_command_tells_which_table_is_held_and_where_to_read_more(tmp_path: Path):
    """A whole run through Dagster, of three tables of which one's mirror cannot be read."""
    _, lake = made(tmp_path)
    Path(_metadata(lake, "mirror")).write_text("{")

    command = [sys.executable, "-m", "ticdc_assets.cli", "run", "--config", str(tmp_path / "lake" / "changefeeds.yaml")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)

    assert ran.returncode == 1
    assert "s.a" in ran.stdout + ran.stderr
    assert {name: count for name, count in rows(lake).items() if name != "a"} == {"b": 2, "c": 2}
    assert states(lake) == {"a": "stopped", "b": "live", "c": "live"}
    assert "ValidationError" in lake.records()["s", "a"].note
    [log] = (tmp_path / "lake").glob("**/run.log")
    logged = log.read_text(errors="replace")
    assert "pyiceberg.exceptions.ValidationError" in logged
    assert "catalog.py" in logged
    assert "input_value" not in logged
