"""What of a changefeed's settings reaches the decoders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.protocols.avro.decoder import AvroOptions
from ticdc_assets.protocols.canal_json.messages import CanalJsonOptions
from ticdc_assets.protocols.events import Op, RowEvent, RowHints
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.open_protocol.decoder import OpenProtocolOptions
from ticdc_assets.protocols.protocol import StreamSettings
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.simple.decoder import SimpleOptions

SETTINGS = StreamSettings(
    Compression.LZ4,
    claim_check_raw_value=True,
    has_commit_ts=True,
    output_old_value=False,
    only_output_updated_columns=True,
)


def test_each_protocol_takes_the_settings_that_change_its_messages():
    assert REGISTRY["canal-json"].options(SETTINGS) == CanalJsonOptions(Compression.LZ4, True, True)
    assert REGISTRY["open-protocol"].options(SETTINGS) == OpenProtocolOptions(Compression.LZ4, False, True)
    assert REGISTRY["simple"].options(SETTINGS) == SimpleOptions(Compression.LZ4, True)
    for name in ("canal-json", "open-protocol", "simple"):
        assert REGISTRY[name].options(StreamSettings()) == type(REGISTRY[name].options(SETTINGS))()


def test_avro_needs_the_registered_schemas():
    assert REGISTRY["avro"].options(replace(SETTINGS, schemas=str)) == AvroOptions(str)
    with pytest.raises(AssertionError):
        REGISTRY["avro"].options(SETTINGS)


def test_bytes_of_debezium_are_in_the_mode_of_the_changefeed():
    options = {
        mode: REGISTRY["debezium"].options(replace(SETTINGS, binary_handling_mode=mode)) for mode in ("base64", "hex")
    }

    assert options["base64"] != options["hex"]
    assert REGISTRY["debezium"].value_under(options["hex"]) is not REGISTRY["debezium"].value
    assert REGISTRY["simple"].value_under(SimpleOptions()) is REGISTRY["simple"].value


def test_times_without_a_zone_are_in_that_of_ticdc_unless_the_protocol_has_utc():
    zones = {name: protocol.zone_of_times("Asia/Tokyo") for name, protocol in REGISTRY.items()}

    assert zones == {name: "UTC" if name == "debezium" else "Asia/Tokyo" for name in REGISTRY}


def test_only_rows_with_types_tell_the_schema_of_their_table():
    row = RowEvent("s", "t", Op.INSERT, 1, {}, hints=RowHints(columns={}))

    assert {name for name, protocol in REGISTRY.items() if protocol.infer is not None} == {
        "canal-json",
        "open-protocol",
    }
    for name in ("canal-json", "open-protocol"):
        infer = REGISTRY[name].infer
        assert infer is not None
        table = infer(row)
        assert (table.schema, table.name, table.columns, table.inferred) == ("s", "t", (), True)
