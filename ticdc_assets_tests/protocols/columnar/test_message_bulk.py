"""The bulk decoders of JSON messages equal the reference decoders on every log and on all that TiCDC may write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.protocols import happened
from ticdc_assets_tests.protocols.columnar.json_agreement import agree, columns_agree, pairs_of, reference
from ticdc_assets_tests.protocols.columnar.json_messages import every_stream, slow_enough
from ticdc_assets_tests.protocols.columnar.streams import FORMS, stream_of

EVERY = [w for prefix in FORMS for w in workloads(prefix)]
CUT = ("handle-key-only", "claim-check", "checksum", "delete-key")
"""Streams in which many rows are not whole, or have a checksum: left by design."""
every_workload = pytest.mark.parametrize("workload", EVERY, ids=lambda w: w.name)


# --- the logs -------------------------------------------------------------------------------------------------------


@every_workload
def test_bulk_and_reference_tell_the_same_of_every_stream(workload):
    stream, pairs = stream_of(workload), pairs_of(workload)

    agree(stream, pairs)


@every_workload
def test_columns_have_the_values_that_the_reference_reads_one_by_one(workload):
    stream = stream_of(workload)
    shapes = happened.tables(workload.events)
    value = REGISTRY[stream.protocol].value
    compared = 0

    for table in stream.bulk.rows(Messages.from_pairs(pairs_of(workload)), stream.options).tables:
        for name, wire, old in zip(
            table.rows.columns, table.rows.wire, table.rows.before or table.rows.wire, strict=True
        ):
            for _, shape in shapes.versions[table.schema, table.table]:
                if name in {column.name for column in shape.columns}:
                    for array in (wire, old):
                        columns_agree(stream, value, shape.column(name), array)
                        compared += len(array)

    assert compared > 0 or "checksum" in workload.name


@every_workload
def test_bulk_takes_the_rows_of_plain_streams(workload):
    stream, pairs = stream_of(workload), pairs_of(workload)
    found = stream.bulk.rows(Messages.from_pairs(pairs), stream.options)
    rows = [n for n, pair in enumerate(pairs) if any(isinstance(row, tuple) for row in reference(stream, pair))]

    assert rows
    if not any(word in workload.name for word in CUT):
        assert sum(not found.left[n] for n in rows) > 0.95 * len(rows)


# --- messages that TiCDC may write ----------------------------------------------------------------------------------


@every_stream
@slow_enough
@given(data=st.data())
def test_bulk_and_reference_tell_the_same_of_generated_messages(stream, data):
    form, message = stream

    agree(form, data.draw(st.lists(message, max_size=8)))


@every_stream
@slow_enough
@given(data=st.data())
def test_bulk_and_reference_give_columns_the_same_values(stream, data):
    form, message = stream
    kinds = [Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.VARCHAR, Kind.VARBINARY, Kind.TEXT, Kind.TIMESTAMP, Kind.ENUM]
    pairs = Messages.from_pairs(data.draw(st.lists(message, max_size=4)))

    for table in form.bulk.rows(pairs, form.options).tables:
        for array in (*table.rows.wire, *(table.rows.before or ())):
            for kind in kinds:
                column = Column("c", MySqlType(kind, unsigned=kind is Kind.BIGINT))
                columns_agree(form, REGISTRY[form.protocol].value, column, array)
