"""The heads of recorded messages as columns: those of the bulk decoders equal those of the reference decoders."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from ticdc_assets.pipeline.landing.message_heads import DDL, ROW, WATERMARK, message_head, message_heads
from ticdc_assets.pipeline.stream_options import options_of
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake

BATCH = 1200
"""Bulk decoders leave smaller batches to the reference decoder."""


@pytest.mark.parametrize(
    "variant", ["open", "simple-json", "simple-avro", "canal-json-tidb", "avro-ext", "debezium-tidb-noschema"]
)
def test_heads_in_columns_are_those_of_the_reference_decoder(variant: str, tmp_path: Path):
    workload = next(w for w in workloads(variant, "seed1") if w.name.startswith(f"{variant}/"))
    changefeed = FeedLake(workload, tmp_path).lake.changefeed
    protocol, options = str(changefeed.sink.protocol), options_of(changefeed)
    recorded = list(messages(workload.root / "messages.jsonl"))
    sent = [recorded[number % len(recorded)] for number in range(BATCH)]

    found = message_heads(
        protocol, options, Messages.from_pairs((m.key, m.value) for m in sent), lambda index: sent[index]
    )

    heads = list(zip(*(getattr(found, of.name).to_pylist() for of in fields(found)), strict=True))
    assert heads == [tuple(message_head(protocol, options, message)) for message in sent]
    assert {ROW, WATERMARK, DDL} & {kind for kind, *_ in heads}
