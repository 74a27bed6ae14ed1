"""The table of what streams cannot carry: complete, documented, and no wider than needed."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from ticdc_assets.config.model.sink import Protocol
from ticdc_assets.protocols.values import native as native_values
from ticdc_assets.protocols.values import text as text_values
from ticdc_assets.protocols.values.text import TextForms
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets_tests.fixtures import needs_fixtures, workloads
from ticdc_assets_tests.pipeline.gaps import AS_SENT, Log, expected
from ticdc_assets_tests.pipeline.lakes import config_of
from ticdc_assets_tests.pipeline.stream.conditions import gaps_of
from ticdc_assets_tests.protocols.limitations import GAPS, About, Condition, Limitation, gaps

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "protocols.md"
HELD_ELSEWHERE = {
    "csv.null",  # `protocols.csv.test_bare_fields` holds it
    "canal-json.large-row", "open-protocol.large-row", "simple.large-row",  # `pipeline.test_completion` holds them
    "debezium.decimal",  # `pipeline.gaps` allows for it change by change
    # `test_the_hour_that_a_clock_change_repeats_is_the_first` holds them
    "csv.repeated-hour", "canal-json.repeated-hour", "open-protocol.repeated-hour", "simple.repeated-hour",
    "avro.repeated-hour",
    # `pipeline.stream.test_missing_columns` and `pipeline.storage.test_missing_columns` hold them
    *(f"{protocol}.left-out" for protocol in Protocol),
    "simple.deleted-row", "debezium.old-values", "debezium.zero-date",  # no fixture was made so
}  # fmt: skip


def condition(gap: Limitation) -> str:
    parts = [f"with {given}" for given in sorted(gap.when)]
    parts += [f"without {given}" for given in sorted(gap.unless)]
    return ", ".join(parts)


def document() -> str:
    lines = [
        "# What each protocol cannot carry", "",
        "No reader can recover what a stream does not contain. Everything else is the same in every protocol. The",
        "tests use the same table (`ticdc_assets_tests/protocols/limitations.py`), and allow no other difference.", "",
    ]  # fmt: skip
    for protocol in Protocol:
        lines += [f"## {protocol}", "", "| gap | about | only | what is missing |", "|---|---|---|---|"]
        for gap in (gap for gap in GAPS if gap.protocol == protocol):
            lines.append(f"| `{gap.id}` | {gap.about} | {condition(gap)} | {gap.sentence} |")
        lines.append("")
    return "\n".join(lines)


def test_the_document_shows_the_table():
    """Write it again with `python -m ticdc_assets_tests.protocols.test_limitations`."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_every_gap_has_an_id_of_its_own_and_one_protocol():
    assert len({gap.id for gap in GAPS}) == len(GAPS)
    assert {gap.protocol for gap in GAPS} == set(Protocol)
    assert all(not gap.when & gap.unless for gap in GAPS)


def test_a_gap_depends_on_the_options_of_the_changefeed():
    plain = {gap.id for gap in gaps("canal-json", {Condition.KAFKA, Condition.OLD_VALUES})}
    with_extension = {
        gap.id for gap in gaps("canal-json", {Condition.KAFKA, Condition.OLD_VALUES, Condition.EXTENSION})
    }

    assert plain - with_extension == {"canal-json.commit-ts", "canal-json.watermark"}


def test_every_gap_in_rows_is_known_to_the_tests():
    assert {gap.id for gap in GAPS if gap.about is About.ROWS} - AS_SENT.keys() == HELD_ELSEWHERE


@pytest.mark.parametrize("protocol", ["csv", "canal-json", "open-protocol", "simple", "avro"])
def test_the_hour_that_a_clock_change_repeats_is_the_first(protocol: str):
    name = f"{protocol}.repeated-hour"
    column = Column("t", MySqlType(Kind.TIMESTAMP))
    twice = "2024-11-03 01:30:00"  # clocks went back at 02:00

    assert name in {gap.id for gap in gaps(protocol, {Condition.CLOCK_CHANGES})}
    assert name not in {gap.id for gap in gaps(protocol, set())}
    expected = datetime(2024, 11, 3, 5, 30, tzinfo=UTC)
    assert expected == text_values.value(column.type, twice, TextForms("raw", "label", "America/New_York"))
    located = {"location": "America/New_York", "value": twice}
    assert expected == native_values.value(column, located, "UTC")


@cache
def _changed(tmp: Path) -> frozenset[str]:
    """The gaps that take something away from a change of a workload whose stream has them."""
    found: set[str] = set()
    for workload in workloads(seed="seed1"):
        capture = workload.root / "messages.jsonl"
        source = capture if capture.exists() else workload.root / "data"
        changefeed = config_of(workload, tmp / workload.root.parent.name, source).changefeeds[0]
        wanted = [gap.id for gap in gaps_of(changefeed) if gap.id in AS_SENT.keys() - found]
        log = Log(workload)
        found.update(n for n in wanted if any(AS_SENT[n](c, c, log) != c for c in expected(workload)))
    return frozenset(found)


@needs_fixtures
@pytest.mark.parametrize("name", sorted(AS_SENT))
def test_every_gap_changes_some_fixture(name: str, tmp_path_factory: pytest.TempPathFactory):
    assert name in _changed(tmp_path_factory.getbasetemp())


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
