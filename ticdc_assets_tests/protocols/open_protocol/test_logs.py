"""Open Protocol: every change of every log comes out as it happened."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from ticdc_assets.protocols.events import Op, RowEvent, WatermarkEvent
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.open_protocol.decoder import decode, infer_table, open_claim, value
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.model import Kind
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.fixtures import Workload, needs_fixtures, of_full_set, workloads
from ticdc_assets_tests.protocols import happened
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.protocols.wire_images import claims_opened, image, keys_only

every_workload = pytest.mark.parametrize("workload", workloads("open"), ids=lambda w: w.name)


def options_of(workload: Workload) -> DecoderOptions:
    sink, uri = workload.variant["config"]["sink"], workload.variant["sink_uri"]
    large = sink.get("kafka-config", {}).get("large-message-handle", {})
    return DecoderOptions(
        compression=Compression(large.get("large-message-handle-compression") or "none"),
        output_old_value=sink.get("open", {}).get("output-old-value", True),
        only_output_updated_columns="only-output-updated-columns=true" in uri,
    )


def events_of(workload: Workload, partition: int | None = None) -> list[Any]:
    options = options_of(workload)
    return [
        event
        for message in messages(workload.root / "messages.jsonl")
        if partition is None or message.partition == partition
        for event in decode(message.key, message.value, message.where, options)
    ]


def rows_of(workload: Workload) -> list[RowEvent]:
    options = options_of(workload)
    return claims_opened(workload, events_of(workload), lambda raw, where: open_claim(raw, where, options))


def change_of(event: RowEvent, shapes: happened.Tables, zone: str) -> Change:
    shape = shapes.as_of(event.schema, event.table, event.commit_ts)
    new, old = (image(shape, wire, zone, value) for wire in (event.wire, event.full_before))
    partitioned = event.hints.partition_id is not None
    return Change(event.schema, event.table, event.op, event.commit_ts, new, old, partitioned)


def as_configured(change: Change, workload: Workload, shapes: happened.Tables) -> Change:
    if change.op == "U" and not options_of(workload).output_old_value:
        return change._replace(op="I", old=None)
    if change.op == "D" and workload.variant["config"]["sink"].get("delete-only-output-handle-key-columns"):
        return keys_only(change, shapes)
    return change


@every_workload
def test_every_change_comes_out_once_for_each_time_it_was_sent(workload):
    shapes = happened.tables(workload.events)
    found = [as_configured(change, workload, shapes) for change in happened.changes(workload)]
    rows = rows_of(workload)
    got = [change_of(event, shapes, workload.time_zone) for event in rows]

    assert found
    if not any(event.handle_only for event in rows):
        assert Counter(found) == Counter(got)
    assert Counter(keys_only(c, shapes) for c in found) == Counter(keys_only(c, shapes) for c in got)
    whole = Counter(c for c, event in zip(got, rows, strict=True) if not event.handle_only)
    assert whole <= Counter(found)


@every_workload
def test_rows_name_the_handle_key_of_their_table(workload):
    shapes = happened.tables(workload.events)
    for event in rows_of(workload):
        key = shapes.as_of(event.schema, event.table, event.commit_ts).key
        assert set(key) == set(event.hints.key or ())
        assert not event.handle_only or set(key) == set(event.wire)


@every_workload
def test_every_partition_tells_every_statement_in_order(workload):
    statements = happened.statements(workload)
    partitions = {message.partition for message in messages(workload.root / "messages.jsonl")}

    for partition in partitions:
        ddls = [e for e in events_of(workload, partition) if isinstance(e, DdlEvent)]
        assert statements == [(e.commit_ts, e.schema, e.table, e.query) for e in ddls]


@every_workload
def test_every_partition_tells_every_watermark_in_order(workload):
    watermarks = happened.watermarks(workload)
    partitions = {message.partition for message in messages(workload.root / "messages.jsonl")}

    assert watermarks
    for partition in partitions:
        assert watermarks == [e.ts for e in events_of(workload, partition) if isinstance(e, WatermarkEvent)]


@needs_fixtures
def test_the_logs_hold_what_these_tests_are_about():
    by_variant: dict[str, list[RowEvent]] = {}
    for workload in workloads("open"):
        by_variant.setdefault(workload.root.parent.name, []).extend(
            e for e in events_of(workload) if isinstance(e, RowEvent)
        )

    assert any(e.claim and e.handle_only for e in by_variant["open-claim-check"])
    assert any(e.handle_only and not e.claim for e in by_variant["open-handle-key-only"])
    assert any(e.before_is_partial for e in by_variant["open-only-updated-delete-key"])
    assert all(e.upsert for e in by_variant["open-no-old-value"] if e.op is not Op.DELETE)
    assert not any(e.upsert or e.before_is_partial for e in by_variant["open"])
    assert any(e.hints.partition_id for e in by_variant["open"])
    assert any(e.hints.key is None for e in by_variant["open-index-value-keyless"])


@pytest.mark.parametrize("workload", of_full_set(workloads("open-preexist")), ids=lambda w: w.name)
def test_columns_inferred_from_rows_are_the_tables_columns_as_far_as_rows_tell(workload):
    shapes = happened.tables(workload.events)
    wide = {Kind.DECIMAL, Kind.BIT}
    for event in rows_of(workload):
        real = shapes.as_of(event.schema, event.table, event.commit_ts)
        found = infer_table(event.schema, event.table, event.hints.columns)
        assert found.inferred
        assert set(real.key) == set(found.key)
        assert {c.name for c in real.stored_columns} == {c.name for c in found.columns}
        for column in found.columns:
            same = real.column(column.name)
            assert (same.type.kind, same.nullable) == (column.type.kind, column.nullable)
            assert same.type.unsigned == column.type.unsigned
            result, wire = value(same, event.wire[column.name], "UTC"), event.wire[column.name]
            inferred = value(column, wire, "UTC")
            if same.type.kind in (Kind.ENUM, Kind.SET):
                assert inferred is None if wire is None else inferred == str(wire)
            elif same.type.kind in wide and result is not None:
                assert Decimal(inferred) == Decimal(result)
            else:
                assert result == inferred
