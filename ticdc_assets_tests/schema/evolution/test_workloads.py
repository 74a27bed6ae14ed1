"""The statements of a workload lead to the tables that TiDB had."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import pytest

from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.mysql_types import bare, parse_type
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.evolution.evolve import alter_all, create
from ticdc_assets.schema.evolution.schema_state import Shape, TruncateRows
from ticdc_assets.schema.model import TableSchema
from ticdc_assets_tests.fixtures import FIXTURES, of_full_set, read_jsonl


def facts(of: TableSchema) -> list[tuple]:
    return [(c.name, bare(c.type), c.nullable, c.virtual) for c in of.columns]


@dataclass
class Live:
    """A table of the replayed workload."""

    shape: Shape


class Replay:
    """Applies a log's statements by their text alone."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, str], Live] = {}
        self.compared = 0

    def group(self, events: list[dict]) -> None:
        before = dict(self.live)
        for event in events:
            for statement in parse(event["query"], event["schema"]):
                self.apply(statement, before)
            if "create_after" in event:
                self.compare(event)

    def apply(self, statement: ddl.Statement, before: dict[tuple[str, str], Live]) -> None:
        match statement:
            case ddl.CreateTable(schema=schema, name=name):
                self.live[(schema, name)] = Live(create(statement))
            case ddl.DropTables(names=names):
                for dropped in names:
                    del self.live[dropped]
            case ddl.DropDatabase(name=schema):
                self.live = {name: live for name, live in self.live.items() if name[0] != schema}
            case ddl.RenameTables(pairs=pairs):
                for old, new in pairs:
                    # A name that changed hands in the statement means the table that bore it before.
                    self.rename(before.get(old) or self.live[old], new)
            case ddl.AlterTable(schema=schema, name=name):
                live = self.live[(schema, name)]
                live.shape = alter_all(live.shape, statement).shape
                self.rename(live, (live.shape.table.schema, live.shape.table.name))
            case ddl.TruncateTable(schema=schema, name=name):
                assert (TruncateRows(),) == alter_all(self.live[(schema, name)].shape, statement).effects

    def rename(self, meant: Live, new: tuple[str, str]) -> None:
        self.live = {name: live for name, live in self.live.items() if live is not meant}
        meant.shape = replace(meant.shape, table=replace(meant.shape.table, schema=new[0], name=new[1]))
        self.live[new] = meant

    def compare(self, event: dict) -> None:
        (after,) = parse(event["create_after"], event["schema"])
        expected, got = create(after).table, self.live[(event["schema"], event["table"])].shape.table

        assert facts(expected) == facts(got), event["query"]
        assert expected.indexes == got.indexes, event["query"]
        assert expected.partitioning == got.partitioning, event["query"]
        assert [c.default for c in expected.columns] == [c.default for c in got.columns], event["query"]
        assert expected.key == got.key
        self.compared += 1

    def check(self, truth: dict) -> None:
        got = self.live[(truth["schema"], truth["table"])].shape.table
        expected = [(n, bare(parse_type(t)), nullable, virtual) for n, t, nullable, virtual in truth["columns"]]

        assert expected == facts(got)
        assert truth["key"] == list(got.key)
        self.compared += 1


def logs() -> list[Path]:
    return sorted((FIXTURES / "logs").glob("*")) if FIXTURES else []


@pytest.mark.parametrize("log", of_full_set(logs()), ids=lambda path: path.name)
def test_the_statements_of_a_workload_lead_to_the_tables_that_tidb_had(log):
    statements = [e for e in read_jsonl(log / "events.jsonl") if e["kind"] in ("ddl", "exists") and not e.get("replay")]
    truths = sorted(read_jsonl(log / "truth.jsonl"), key=lambda truth: truth["ts"])
    replay = Replay()
    waiting = [(ts, list(group)) for ts, group in groupby(statements, key=lambda e: e["commit_ts"])]
    for truth in truths:
        while waiting and waiting[0][0] <= truth["ts"]:
            replay.group(waiting.pop(0)[1])
        replay.check(truth)

    assert replay.compared >= len(truths) > 0
