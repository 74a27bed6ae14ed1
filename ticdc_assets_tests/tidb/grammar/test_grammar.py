"""Each statement of TiDB's grammar: the lake is as the server was behind it, or the table is held with a code.

docs/statements.md has the list with the result of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ticdc_assets.notes import NoteCode
from ticdc_assets_tests.pipeline.small_streams import SmallStream
from ticdc_assets_tests.tidb.evaluated import evaluate
from ticdc_assets_tests.tidb.grammar.listed import NUMBER, listed
from ticdc_assets_tests.tidb.recorded import recorded
from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.replayed import Step, TableState, differences, steps_of
from ticdc_assets_tests.tidb.workloads.canal_json import CanalJsonMessages
from ticdc_assets_tests.tidb.workloads.judge import mirror_differences, schema_differences
from ticdc_assets_tests.tidb.workloads.sinks import SINKS
from ticdc_assets_tests.tidb.workloads.stream import WorkloadStream
from ticdc_assets_tests.truth import comparable

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "statements.md"
BEGIN = "## Each statement of TiDB\n"
INTRODUCTION = """
A server (TiDB 8.5) ran these statements, and a test replays them from what it did. *Followed*: columns, key and rows
become what the server has. *No effect*: the server leaves them as they are, and so does the lake. *Refused*: the server
does not take the statement; the number is its error. *Held*: the table stops, with this [code](bad-input.md). Each
table has a few rows: a MODIFY COLUMN that is followed here stops at [other values](#modify-column). The rows that are
written afterwards are right too, with messages and with a storage sink. What comes after the statement is said above,
such as for a table that [has lost its key](#drop-primary-key).
"""
ON_T = re.compile(r"(CREATE TABLE|ALTER TABLE|TRUNCATE TABLE|TRUNCATE)( IF NOT EXISTS)? `t`")
KEY_LOST = "DROP PRIMARY KEY, DROP INDEX"
ROWS_OF_OTHERS = re.compile(r"EXCHANGE PARTITION|RENAME( TO| AS| =)? `|` LIKE `")


@dataclass(frozen=True)
class Replayed:
    """What came of the stream of all statements: by database, the notes of held tables and the differences, also of the
    rows that were written after the statement."""

    held: Mapping[str, list[str]]
    wrong: Mapping[str, list[str]]


@cache
def replayed(sink: str) -> Replayed:
    with TemporaryDirectory() as folder:
        stream = WorkloadStream(SINKS[sink](Path(folder), "UTC"), recorded("grammar"))
        stream.go_on(stream.length)
        lake = stream.lake()
        lake.publish()
        held: dict[str, list[str]] = {}
        wrong: dict[str, list[str]] = {}
        records, history = lake.records(), lake.history
        for name, record in records.items():
            if record.state != "live":
                held.setdefault(name[0], []).append(f"`{record.notes[0].code}`: {_reason(record.notes[0].detail)}")
            elif name not in stream.tables:
                wrong.setdefault(name[0], []).append(f"{name[1]} should not be there")
        written = {(change.schema, change.table, change.new) for change in lake.changes() if change.op != "D"}
        for name, state in stream.tables.items():
            found = list(schema_differences(history, stream.ts, {name: state}, only_stored=True))
            if name not in records and name[0] not in held:
                found.append(f"{name[1]} is missing")
            elif name in records and records[name].state == "live" and (row := _written(state)):
                image = tuple(sorted((column, comparable(cell)) for column, cell in row.items()))
                found += [] if (*name, image) in written else [f"{name[1]} lacks {image}"]
            wrong.setdefault(name[0], []).extend(found)
    return Replayed(held, wrong)


def _written(state: TableState) -> dict[str, Any] | None:
    """The row that was written after the statement; None for one in quarantine, whose key has a zero date."""
    row = state.values().get(NUMBER)
    return row if row and all(row[column] is not None for column in state.key) else None


def _reason(text: str) -> str:
    """The first sentence of a note, without the place of the statement."""
    return re.sub(r"^\S+@\d+: ", "", text).partition(". ")[0].removesuffix(".")


@cache
def steps(database: str) -> list[Step]:
    """The statements on the table `t` alone, as `replayed` evaluates them."""
    [history] = [history for history in recorded("grammar") if history["id"] == database]
    return list(steps_of({**history, "steps": list(_of_table(history))}))


def _of_table(history: History) -> Iterator[dict[str, Any]]:
    for step in history["steps"]:
        state, sql = step["tables"].get("t", {}), step.get("sql")
        if sql is None and state:
            yield state
        elif sql and "`t`" in sql and (state is None or not ON_T.match(sql) or ROWS_OF_OTHERS.search(sql)):
            return
        elif sql and ON_T.match(sql):
            yield {"sql": sql, **state}


@pytest.mark.parametrize("history", recorded("grammar"), ids=[history["sql"] for history in recorded("grammar")])
def test_a_statement_has_the_effect_that_it_has_at_the_server_or_holds_its_table(history: History):
    assert [replayed(sink).wrong.get(history["id"], []) for sink in ("canal_json", "csv")] == [[], []]
    plain = [step for step in steps(history["id"]) if not (step.converts or step.deletes)]
    assert differences(plain) == []


@pytest.mark.long
@pytest.mark.spark
def test_rows_that_a_statement_converts_or_removes_are_what_the_server_had(tmp_path: Path):
    changed = [s for history in recorded("grammar") for s in steps(history["id"]) if s.converts or s.deletes]

    evaluate([e for step in changed for e in (*step.converts.values(), *step.deletes)], tmp_path)

    assert differences(changed) == []
    assert len(changed) >= 14


@pytest.mark.long
@pytest.mark.spark
def test_mirrors_without_a_key_and_after_exchanges_and_recoveries_are_as_listed(tmp_path: Path):
    special = ("EXCHANGE", KEY_LOST, "after DROP")
    said = [(h, h["kind"] + h["sql"]) for h in recorded("grammar")]
    chosen = [h for h, text in said if any(words in text for words in special) or at_mirror(h)]
    stream = WorkloadStream(CanalJsonMessages(SmallStream(tmp_path)), chosen)
    lake = stream.lake()
    [loses_key] = [place for place, history in enumerate(chosen) if KEY_LOST in history["sql"]]
    stream.go_on(sum(len(history["steps"]) for history in chosen[: loses_key + 1]) - 2)

    lake.run()
    stream.go_on(stream.length)
    lake.run()

    assert list(mirror_differences(lake, stream)) == []
    stopped = {name[0]: record for name, record in lake.records().items() if record.state != "live"}
    assert set(stopped) == {history["id"] for history in chosen if result(history).startswith("held")}
    assert {record.notes[0].code for record in stopped.values()} == {NoteCode.MIRROR}


def test_the_recording_is_of_the_list():
    statements = [(statement.kind, statement.sql) for statement in listed()]

    assert [(history["kind"], history["sql"]) for history in recorded("grammar")] == statements


# -- the document ------------------------------------------------------------------------------------------------------


def at_mirror(history: History) -> str:
    """Why the mirror cannot follow the statement; else ""."""
    if history["result"] == "job" and "EXCHANGE" in history["sql"] and "WITHOUT VALIDATION" in history["sql"]:
        return "the partition receives rows of another one"
    if history["result"] != "job" or not (made := steps(history["id"])) or made[-1].sql != history["sql"]:
        return ""
    return "a change of type that is not computed" if made[-1].held else ""


def result(history: History) -> str:
    if history["result"] not in ("job", "none"):
        return f"refused ({history['result']})"
    if reason := [*replayed("canal_json").held.get(history["id"], []), *filter(None, [at_mirror(history)])]:
        return f"held, {reason[0] if reason[0].startswith('`') else f'`{NoteCode.MIRROR}`: {reason[0]}'}"
    changes = history["result"] == "job" and [step["tables"] for step in history["steps"] if "sql" in step][-1]
    return "followed" if changes else "no effect"


def document() -> str:
    kept = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)[0]
    kinds: dict[str, list[History]] = {}
    for history in recorded("grammar"):
        kinds.setdefault(history["kind"], []).append(history)
    lines = [INTRODUCTION]
    for kind, histories in kinds.items():
        lines += [f"### {kind}\n", "| statement | result |", "|---|---|"]
        lines += [f"| `` {history['sql']} `` | {result(history)} |" for history in histories]
        lines.append("")
    return kept + BEGIN + "\n".join(lines).rstrip() + "\n"


def test_the_document_shows_the_results():
    """Write it again with `python -m ticdc_assets_tests.tidb.grammar.test_grammar`."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
