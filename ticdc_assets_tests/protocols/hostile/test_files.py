"""Damaged files: each record is read or quarantined, else the file is held; the bulk decoder equals the reference."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from ticdc_assets.errors import DecodeError, NotYetError, SchemaError, SourceError
from ticdc_assets.protocols.canal_json import bulk as canal_json_bulk
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.columnar.raw_rows import BadRecord, BulkUnsupported, Incomplete, RawRows
from ticdc_assets.protocols.csv import bulk as csv_bulk
from ticdc_assets.protocols.csv import decoder as csv
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.storage.schema_file import parse_schema_file
from ticdc_assets.protocols.values import text_columns
from ticdc_assets.protocols.values.text import TextForms
from ticdc_assets.protocols.values.text import value as text_value
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.sources.capture import messages
from ticdc_assets.sources.storage.paths import Layout, data_name, index_dispatcher, numeral, schema_name
from ticdc_assets_tests.fixtures import CORPUS, Workload
from ticdc_assets_tests.protocols import storage_rows
from ticdc_assets_tests.protocols.csv.read import options_of
from ticdc_assets_tests.protocols.hostile.mutations import HOSTILE_BYTES, HOSTILE_TOKENS, Mutant, Mutator, Seed, alone
from ticdc_assets_tests.protocols.hostile.seeds import lake_types
from ticdc_assets_tests.protocols.hostile.targets import INPUTS, NUMBER, bombard

BULK_INPUTS = INPUTS // 50
"""A whole file a time costs what hundreds of messages cost."""
LINES_MAX = 2
CSV_TOKENS = re.compile(rb'"(?:[^"]|"")*"|[^",\r\n]+|,|\r\n')
CSV_HOSTILE = [
    *(b'"I" "U" "D" "X" I true false \\N "\\N" 0 -1 1e400 9223372036854775808 NaN , ,, "" " \r\n \n \r'.split(b" ")),
    *(b'""""', b'"\r\n"', b'"a""', b"\\", b"\\\\", b"\xff", b'"\xff"', b'"' + b"x" * 300 + b'"', b"\0", b"9" * 40),
    *(b'"%s"' % token.strip(b'"') for token in HOSTILE_TOKENS if len(token) < 80),
]


Records = Iterable[tuple[int, RowEvent] | BadRecord | Incomplete]


@dataclass(frozen=True, eq=False)
class Folder:
    """The table that a file is of, and how files are written."""

    schema: str
    table: str
    shape: TableSchema
    forms: TextForms
    options: CsvOptions | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.shape.stored_columns)


def corpus(*variants: str) -> list[Workload]:
    return [Workload(CORPUS / "fixtures" / variant / "seed1") for variant in variants]


def csv_seeds() -> list[Seed]:
    found = []
    for workload in corpus("storage-csv", "storage-csv-no-commit-ts", "storage-csv-zone", "storage-csv-special"):
        options = options_of(workload)
        for path, schema, table, shape in storage_rows.folders(workload, "csv"):
            folder = Folder(schema, table, shape, options.forms(workload.time_zone), options)
            found.append(_beginning(path.read_bytes(), folder))
    return _smaller_half(found, csv_records)


def json_seeds() -> list[Seed]:
    found = []
    for workload in corpus("storage-canal-json-tidb"):
        for path, schema, table, shape in storage_rows.folders(workload, "json"):
            folder = Folder(schema, table, shape, canal_json.forms(workload.time_zone))
            found.append(_beginning(path.read_bytes(), folder))
    return _smaller_half(found, json_records)


def _beginning(data: bytes, folder: Folder) -> Seed:
    return Seed((b"".join(data.splitlines(keepends=True)[:LINES_MAX]),), alone, folder)


def _smaller_half(seeds: list[Seed], records: Callable[[bytes, Folder], Records]) -> list[Seed]:
    """Where the cut went through a text with a line end in it, the beginning is not sound."""
    found = {
        seed: storage_rows.of_reference(records(seed.bodies[0], seed.context), seed.context.columns) for seed in seeds
    }
    sound = sorted((seed for seed, rows in found.items() if rows), key=lambda seed: len(seed.bodies[0]))
    assert len(sound) > 20
    return sound[: len(sound) // 2]


# -- one record at a time ---------------------------------------------------------------------------------------------


def csv_records(data: bytes, folder: Folder) -> Records:
    assert folder.options is not None
    return csv.changes(csv.read(data, folder.options, len(folder.columns), "f"), folder.columns)


def json_records(data: bytes, folder: Folder) -> Records:
    return canal_json.read_file(data, "f")


def consume(records: Callable[[bytes, Folder], Records], mutant: Mutant) -> bool:
    """Reads a file to its end and types its rows; bad records are part of it as they stand."""
    data, folder = mutant.value or b"", mutant.seed.context
    taken = False
    for record in records(data, folder):
        if isinstance(record, BadRecord):
            assert record.raw in data
        elif not isinstance(record, Incomplete):
            taken |= _typed(record[1], folder)
    return taken


def _typed(row: RowEvent, folder: Folder) -> bool:
    assert row.commit_ts is None or 0 <= row.commit_ts < 1 << 63
    sound = True
    for image in (row.wire, row.before or {}):
        for column in folder.shape.stored_columns:
            try:
                found = text_value(column.type, image.get(column.name), folder.forms)
            except DecodeError:
                sound = False
            else:
                if found is not None:
                    pa.array([found], arrow_type(column.type))
    return sound


def test_a_damaged_csv_file_is_read_record_by_record():
    mutator = Mutator(csv_seeds(), NUMBER, CSV_HOSTILE, CSV_TOKENS)

    outcome = bombard(partial(consume, csv_records), mutator)

    assert outcome.taken > outcome.inputs // 10


def test_a_damaged_canal_json_file_is_read_line_by_line():
    outcome = bombard(partial(consume, json_records), Mutator(json_seeds(), NUMBER))

    assert outcome.taken > outcome.inputs // 10


# -- in bulk ----------------------------------------------------------------------------------------------------------


def csv_bulk_rows(data: bytes, folder: Folder) -> Iterator[RawRows]:
    assert folder.options is not None
    return csv_bulk.read_stream(io.BytesIO(data), folder.columns, "f", None, folder.options, 200)


def json_bulk_rows(data: bytes, folder: Folder) -> Iterator[RawRows]:
    stream = io.BytesIO(data)
    return canal_json_bulk.read_stream(stream, folder.columns, "f", (folder.schema, folder.table), batch_bytes=900)


def agree(bulk: Any, records: Any, mutant: Mutant) -> bool:
    """Check that the bulk decoder equals the reference decoder, value by value. Returns whether it read the file."""
    data, folder = mutant.value or b"", mutant.seed.context
    try:
        batches = list(bulk(data, folder))
    except (BulkUnsupported, NotYetError):
        return False
    reference = storage_rows.of_reference(records(data, folder), folder.columns)

    assert reference == storage_rows.of_bulk(batches)
    for batch in batches:
        _typed_alike(batch, folder)
    return True


def _typed_alike(batch: RawRows, folder: Folder) -> None:
    for name, texts in zip(batch.columns, batch.wire, strict=True):
        column = folder.shape.column(name)
        assert column is not None
        try:
            one_by_one = [text_value(column.type, text, folder.forms) for text in texts.to_pylist()]
        except DecodeError:
            with pytest.raises(DecodeError):
                text_columns.column(column.type, texts, folder.forms)
        else:
            together = text_columns.column(column.type, texts, folder.forms)
            assert pa.array(one_by_one, arrow_type(column.type)).equals(together)


def test_a_damaged_csv_file_is_to_bulk_what_it_is_to_the_reference():
    mutator = Mutator(csv_seeds(), NUMBER, CSV_HOSTILE, CSV_TOKENS)

    outcome = bombard(partial(agree, csv_bulk_rows, csv_records), mutator, BULK_INPUTS)

    assert outcome.taken > outcome.inputs // 10


def test_a_damaged_canal_json_file_is_to_bulk_what_it_is_to_the_reference():
    outcome = bombard(partial(agree, json_bulk_rows, json_records), Mutator(json_seeds(), NUMBER), BULK_INPUTS)

    assert outcome.taken > outcome.inputs // 50


# -- schema files, names, captures -------------------------------------------------------------------------------------


def schema_seeds() -> list[Seed]:
    data = [w.root / "data" for w in corpus("storage-csv", "storage-csv-special")]
    paths = [(root, path) for root in data for path in sorted(root.rglob("schema_*.json"))]
    found = {path.read_bytes(): path.relative_to(root).as_posix() for root, path in paths}
    return sorted((Seed((body,), alone, path) for body, path in found.items()), key=lambda s: len(s.bodies[0]))[:20]


def schema_file(mutant: Mutant) -> bool:
    try:
        found = parse_schema_file(mutant.value or b"", mutant.seed.context)
    except (SchemaError, NotYetError):
        return False
    assert 0 < found.version < 1 << 63
    table = found.table_schema()
    if table is not None:
        lake_types(table)
    return True


def test_a_damaged_schema_file_is_understood_refused_or_waited_for():
    outcome = bombard(schema_file, Mutator(schema_seeds(), NUMBER), INPUTS // 4)

    assert outcome.taken > outcome.inputs // 50


NAMES = [
    b"CDC00000000000000000012.csv\n",
    b"CDC_0123456789abcdef_000012.json\n",
    b"CDC000001.csv",
    b"schema_459802239535939587_2958147140.json",
    b"459802239535939587",
    b"2025-08-01",
    b"CDC_0123456789abcdef.index",
]
NAME_TOKENS = [
    b"",
    b"/",
    b"..",
    b"\\",
    b"\0",
    b"\n",
    b"0",
    b"9" * 20,
    b"9" * 400,
    b"-",
    b"_",
    b".",
    b"\xd9\xa1",
    b"\xff",
]


def file_name(mutant: Mutant) -> bool:
    """A name, or an index file's content, whatever it is taken for."""
    name = (mutant.value or b"").decode(errors="replace").removesuffix("\n")
    found = data_name(name)
    if found is not None:
        assert 0 < found.number < 10**20
        assert "/" not in name
        assert "\n" not in name
        layout = Layout(extension=found.extension, index_digits=max(6, found.digits))
        assert layout.data_name(found.dispatcher, found.number, found.digits) == name
    given = [schema_name(name), numeral(name), Layout().is_date(name) or None, index_dispatcher(name)[0] or None]
    Layout().date_is_over(name, 1 << 62)
    return any(one is not None for one in (found, *given))


def test_a_damaged_name_is_none_or_comes_back_as_it_was():
    seeds = [Seed((name,), alone) for name in NAMES]

    pieces = re.compile(rb"[A-Za-z]+|[0-9]+|[^A-Za-z0-9]")
    outcome = bombard(file_name, Mutator(seeds, NUMBER, NAME_TOKENS, pieces), INPUTS // 4)

    assert outcome.taken > outcome.inputs // 50


def test_a_damaged_capture_is_read_or_refused_at_its_place(tmp_path):
    lines = (CORPUS / "fixtures/open/seed1/messages.jsonl").read_bytes().splitlines()
    line = b"\n".join(sorted(lines, key=len)[:2]) + b"\n"
    record = b"".join(
        [*((1_760_000_000_000).to_bytes(8, "big"), b"\0\0\0\x03", b"key", b"\0\0\0\x05", b"value")],
    )
    seeds = [Seed((line,), alone, tmp_path / "messages.jsonl"), Seed((record * 2,), alone, tmp_path / "topic-0.bin")]
    seeds.append(Seed((record[:8] + b"\xff" * 8,), alone, tmp_path / "topic-0.bin"))

    outcome = bombard(_capture, Mutator(seeds, NUMBER, [*HOSTILE_TOKENS, *HOSTILE_BYTES]), INPUTS // 20)

    assert outcome.taken > outcome.inputs // 50


def _capture(mutant: Mutant) -> bool:
    path = mutant.seed.context
    path.write_bytes(mutant.value or b"")
    try:
        found = list(messages(path))
    except SourceError as error:
        assert str(path) in str(error)
        return False
    return all(0 <= message.offset < 1 << 63 and 0 <= message.partition < 1 << 63 for message in found)
