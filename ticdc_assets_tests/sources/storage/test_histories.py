"""Random writes of TiCDC, with scans and pauses in between: every row is delivered exactly once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.sources.storage.paths import Layout
from ticdc_assets.sources.storage.scan import Cursor, scan
from ticdc_assets_tests.sources.storage.bucket import ID, JULY_31, NAME, PHYSICAL_DAY, Bucket


class Writer:
    """A TiCDC that writes at random: tables, versions, dates, partitions, restarts, with pauses anywhere in between."""

    def __init__(self, base: Path, seed: int) -> None:
        self.random = random.Random(seed)
        separator = self.random.choice(["none", "day", "month", "year"])
        self.layout = Layout(separator, self.random.choice(["csv", "json"]), index_digits=self.random.choice([6, 20]))
        self.bucket = Bucket(base, self.layout, JULY_31)
        self.now = JULY_31
        self.tables = [("shop", "t"), ("shop", "meta"), ("2024", "a/b")]
        self.version: dict[tuple[str, str], int] = {}
        self.numbers: dict[str, int] = {}
        self.written: list[str] = []
        self.schemas: list[str] = []
        self.unfinished: tuple[str, int] | None = None

    def step(self) -> None:
        self.now += self.random.choice([1, 1, PHYSICAL_DAY // 24, PHYSICAL_DAY // 2])
        table = self.random.choice(self.tables)
        if table not in self.version or self.random.random() < 0.1:
            self.version[table] = self.now
            columns = [ID, NAME] if self.random.random() < 0.5 else [ID]
            self.schemas.append(self.bucket.schema(*table, self.now, columns, f"ALTER {self.now}"))
        else:
            self.file(table)
        if self.random.random() < 0.3:
            self.bucket.checkpoint(self.now)

    def file(self, table: tuple[str, str]) -> None:
        parts = ["/".join(table), str(self.version[table])]
        parts += [self.random.choice(["115", "2024"])] if table[1] == "meta" else []
        parts += [self.date()] if self.layout.dated else []
        folder = "/".join(parts)
        number = self.numbers.get(folder, 0) + 1
        self.numbers[folder] = number
        self.bucket.index(folder, number)
        self.unfinished = (folder, number)

    def finish(self) -> None:
        if self.unfinished:
            folder, number = self.unfinished
            self.written.append(self.bucket.data(folder, number, b"x" * self.random.randint(1, 9)))
            self.unfinished = None

    def date(self) -> str:
        from ticdc_assets.sources.storage.paths import DATE_FORMS
        from ticdc_assets.tso import to_datetime

        clock = self.now + self.random.choice([-12, 0, 14]) * PHYSICAL_DAY // 24
        return to_datetime(clock).strftime(DATE_FORMS[self.layout.date_separator])


@pytest.mark.parametrize("seed", range(60))
def test_any_history_gives_every_file_and_schema_file_exactly_once(tmp_path: Path, seed: int) -> None:
    writer, cursor, chance = Writer(tmp_path, seed), Cursor.empty(), random.Random(-seed)
    consumed: list[str] = []
    schemas: list[str] = []
    for _ in range(60):
        writer.step()
        if chance.random() < 0.3:
            cursor = run_once(writer, cursor, consumed, schemas, chance)
        writer.finish()
    writer.now += 1
    writer.bucket.checkpoint(writer.now)
    for _ in range(2):
        cursor = run_once(writer, cursor, consumed, schemas, None)

    assert sorted(consumed) == sorted(writer.written)
    assert sorted(schemas) == sorted(writer.schemas)
    assert run_once(writer, cursor, consumed, schemas, None) == cursor
    assert sorted(consumed) == sorted(writer.written)


def run_once(
    writer: Writer, cursor: Cursor, consumed: list[str], schemas: list[str], chance: random.Random | None
) -> Cursor:
    """One run: sometimes it consumes only the first files of each folder, sometimes it holds a table."""
    found = scan(open_root(str(writer.bucket.base)), writer.layout, cursor)
    assert all(problem.kind == "waiting" for problem in found.problems)
    held = {writer.tables[0]} if chance and chance.random() < 0.2 else set()
    few = chance.randint(0, 5) if chance and chance.random() < 0.3 else 1000
    fully = [f for f in found.data if f.number <= few]
    consumed += [f.path for f in fully if (f.schema, f.table) not in held]
    free = [t for t in found.tables if not t.problems and (t.schema, t.table) not in held]
    schemas += [file.where for table in free for file in table.schema_files]
    return Cursor.from_json(cursor.advance(found, fully, held).to_json())
