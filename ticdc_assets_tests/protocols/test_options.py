"""What of a changefeed's settings reaches the decoders."""

from __future__ import annotations

from ticdc_assets.protocols.events import Op, RowEvent, RowHints
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.model import Column, Kind, MySqlType

MODES = {"bytes": "//4=", "base64": "//4=", "base64-url-safe": "__4=", "hex": "fffe"}


def test_bytes_of_debezium_are_in_the_mode_of_the_changefeed():
    column = Column("c", MySqlType(Kind.BLOB))
    read = {mode: REGISTRY["debezium"].value_under(DecoderOptions(binary_handling_mode=mode)) for mode in MODES}

    assert {mode: read[mode](column, sent, "UTC") for mode, sent in MODES.items()} == dict.fromkeys(MODES, b"\xff\xfe")
    assert REGISTRY["simple"].value_under(DecoderOptions()) is REGISTRY["simple"].value


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
