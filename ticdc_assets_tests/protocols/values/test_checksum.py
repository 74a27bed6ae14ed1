"""Row-level checksums: computed over TiDB's own forms of values, and without a result where they cannot be computed."""

from __future__ import annotations

import struct
from typing import Any
from zlib import crc32

import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.simple import decoder as simple
from ticdc_assets.protocols.values.checksum import CORRUPTED, Checksum, row_checksums, with_checksum
from ticdc_assets.protocols.values.native import plain
from ticdc_assets.schema.model import Column, Kind, MySqlType, TableSchema


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


def f64(number: float) -> bytes:
    return struct.pack("<d", number)


def text(of: str | bytes) -> bytes:
    raw = of.encode() if isinstance(of, str) else of
    return struct.pack("<I", len(raw)) + raw


def table(*types: MySqlType) -> TableSchema:
    return TableSchema("shop", "t", tuple(Column(f"c{n}", of) for n, of in enumerate(types)))


def row(wire: dict[str, Any], op: Op = Op.INSERT, **more: Any) -> RowEvent:
    return RowEvent("shop", "t", op, 1, wire, **more)


def sums(of: MySqlType, wire: Any, zone: str = "UTC", labels: bool = False, fold: int = 0) -> tuple[int, int]:
    def to_plain(column: Column, found: Any, at: int) -> Any:
        return plain(column, found, zone, labels, at)

    return row_checksums({"c0": wire}, table(of), to_plain, {"c0"} if fold else ())


FLOAT32_TENTH = struct.unpack("f", struct.pack("f", 0.1))[0]


@pytest.mark.parametrize(
    ("of", "wire", "form"),
    [
        (MySqlType(Kind.INT), "-1", u64((1 << 64) - 1)),
        (MySqlType(Kind.TINYINT, unsigned=True), 255, u64(255)),
        (MySqlType(Kind.BIGINT, unsigned=True), {"value": -1}, u64((1 << 64) - 1)),
        (MySqlType(Kind.YEAR), "2024", u64(2024)),
        (MySqlType(Kind.BIT, 10), b"\x02\x01", u64(513)),
        (MySqlType(Kind.BIT, 64), -1, u64((1 << 64) - 1)),
        (MySqlType(Kind.FLOAT), "0.1", f64(FLOAT32_TENTH)),
        (MySqlType(Kind.DOUBLE), "0.1", f64(0.1)),
        (MySqlType(Kind.ENUM, elements=("a", "b")), "2", u64(2)),
        (MySqlType(Kind.SET, elements=("a", "b", "c")), 5, u64(5)),
        (MySqlType(Kind.SET, elements=tuple("abcdefgh" * 8)), -1, u64((1 << 64) - 1)),
        (MySqlType(Kind.DECIMAL, 12, 4), "1.5000", text("1.5000")),
        (MySqlType(Kind.VARCHAR, 9), "é", text("é")),
        (MySqlType(Kind.VARBINARY, 9), b"\xff\0", text(b"\xff\0")),
        (MySqlType(Kind.BLOB), "/wA=", text(b"\xff\0")),
        (MySqlType(Kind.DATETIME, 3), "2024-01-01 00:00:00.100", text("2024-01-01 00:00:00.100")),
        (MySqlType(Kind.DATE), "0000-00-00", text("0000-00-00")),
        (MySqlType(Kind.TIME, 3), "-838:59:59.000", text("-838:59:59.000")),
        (MySqlType(Kind.JSON), '{"a": 1}', text('{"a": 1}')),
    ],
)
def test_each_type_counts_in_its_own_form(of, wire, form):
    assert sums(of, wire) == (crc32(form), crc32(form))


def test_labels_count_as_their_numbers():
    elements = ("a,b", "c", "d")
    for label, number in (("", 0), ("a,b", 1), ("d", 3)):
        assert sums(MySqlType(Kind.ENUM, elements=elements), label, labels=True)[0] == crc32(u64(number))
    for label, number in (("", 0), ("c", 2), ("c,d", 6)):
        assert sums(MySqlType(Kind.SET, elements=elements), label, labels=True)[0] == crc32(u64(number))
    with pytest.raises(DecodeError):
        sums(MySqlType(Kind.SET, elements=elements), "x", labels=True)


def test_vectors_count_in_tidbs_form_or_in_ticdcs():
    binary = struct.pack("<I2f", 2, 0.5, -1.25)

    assert sums(MySqlType(Kind.VECTOR), "[0.5,-1.25]") == (crc32(binary), crc32(text("[0.5,-1.25]")))
    signed = "[-0,1]"
    assert sums(MySqlType(Kind.VECTOR), signed) == (crc32(struct.pack("<I2f", 2, -0.0, 1)), crc32(text(signed)))
    for damaged in ("[", "5", '["a"]', "[1e99]", "[-0,NaN"):
        with pytest.raises(DecodeError):
            sums(MySqlType(Kind.VECTOR), damaged)


@pytest.mark.parametrize(
    ("wire", "zone", "utc"),
    [
        ("2024-01-01 12:00:00", "UTC", "2024-01-01 12:00:00"),
        ("2024-01-01 12:00:00.120", "Asia/Shanghai", "2024-01-01 04:00:00.120"),
        ("2024-01-01 12:00:00", "+02:30", "2024-01-01 09:30:00"),
        ("0000-00-00 00:00:00.000", "Asia/Shanghai", "0000-00-00 00:00:00.000"),
        ({"location": "Asia/Shanghai", "value": "2024-01-01 12:00:00"}, "UTC", "2024-01-01 04:00:00"),
        ({"location": "Local", "value": "2024-01-01 12:00:00"}, "Asia/Shanghai", "2024-01-01 04:00:00"),
    ],
)
def test_timestamps_count_as_text_in_utc_with_their_digits(wire, zone, utc):
    assert sums(MySqlType(Kind.TIMESTAMP, 3), wire, zone)[0] == crc32(text(utc))


def test_a_wall_time_that_occurs_twice_may_be_either():
    of = MySqlType(Kind.TIMESTAMP)
    for utc in ("2024-11-03 05:30:00", "2024-11-03 06:30:00"):
        event = with_checksum(row({"c0": "2024-11-03 01:30:00"}), Checksum(crc32(text(utc)), 0))
        assert confluent_avro.verify(event, table(of), "America/New_York") is None
    event = with_checksum(row({"c0": "2024-11-03 01:30:00"}), Checksum(crc32(text("2024-11-03 07:30:00")), 0))
    assert confluent_avro.verify(event, table(of), "America/New_York")


def test_columns_count_in_the_schemas_order_and_nulls_not_at_all():
    shape = table(MySqlType(Kind.INT), MySqlType(Kind.VARCHAR, 9), MySqlType(Kind.INT))
    expected = crc32(u64(1) + u64(3))

    assert simple.verify(with_checksum(row({"c2": "3", "c1": None, "c0": "1"}), Checksum(expected, 0)), shape) is None
    assert simple.verify(with_checksum(row({"c2": "1", "c1": None, "c0": "3"}), Checksum(expected, 0)), shape)


INTS = table(MySqlType(Kind.INT))
ONE, TWO = crc32(u64(1)), crc32(u64(2))


@pytest.mark.parametrize(
    ("event", "current", "previous", "wrong"),
    [
        (row({"c0": 1}), ONE, 0, None),
        (row({"c0": 2}), ONE, 0, "new"),
        (row({"c0": 2}, Op.DELETE), 0, TWO, None),
        (row({"c0": 1}, Op.DELETE), 0, TWO, "old"),
        (row({"c0": 1}, Op.UPDATE, before={"c0": 2}), ONE, TWO, None),
        (row({"c0": 1}, Op.UPDATE, before={"c0": 1}), ONE, TWO, "old"),
        (row({"c0": 2}, Op.UPDATE, before={"c0": 2}), ONE, TWO, "new"),
        (row({"c0": 1}, Op.UPDATE), ONE, TWO, None),
        (row({"c0": 5}), 0, 0, None),
        (row({"c0": 5}, handle_only=True), ONE, 0, None),
        (row({"c0": 1}, Op.UPDATE, before={}, before_is_partial=True), ONE, TWO, None),
        (row({"c0": 2}, Op.UPDATE, before={}, before_is_partial=True), ONE, TWO, "new"),
    ],
)
def test_a_row_is_checked_against_the_checksums_it_came_with(event, current, previous, wrong):
    found = simple.verify(with_checksum(event, Checksum(current, previous)), INTS)

    assert found == (wrong and f"the {wrong} values do not have the row-level checksum that TiDB computed")


def test_a_row_that_ticdc_marked_as_corrupted_is():
    event = with_checksum(row({"c0": 1}), Checksum(ONE, 0, corrupted=True))

    assert simple.verify(event, INTS) == CORRUPTED


def test_a_row_without_a_checksum_is_not_checked():
    assert simple.verify(row({"c0": 1}), INTS) is None


ZONE = "America/New_York"
MOMENTS = table(MySqlType(Kind.TIMESTAMP), MySqlType(Kind.INT), MySqlType(Kind.TIMESTAMP), MySqlType(Kind.TIMESTAMP))


def in_the_repeated_hour(*utc: str) -> RowEvent:
    """A row of two times that are 01:30 on the clock, an hour apart, and one that no other is."""
    checksum = crc32(b"".join((text(utc[0]), u64(7), text(utc[1]), text("2024-07-01 12:00:00"))))
    wire = {"c0": "2024-11-03 01:30:00", "c1": 7, "c2": "2024-11-03 01:30:00", "c3": "2024-07-01 08:00:00"}
    return with_checksum(row(wire), Checksum(checksum, 0))


@pytest.mark.parametrize("first", ["2024-11-03 05:30:00", "2024-11-03 06:30:00"])
@pytest.mark.parametrize("second", ["2024-11-03 05:30:00", "2024-11-03 06:30:00"])
@pytest.mark.parametrize("protocol", [simple, confluent_avro])
def test_a_checksum_tells_which_of_two_times_a_timestamp_is(protocol: Any, first: str, second: str):
    event = in_the_repeated_hour(first, second)

    assert protocol.verify(event, MOMENTS, ZONE) is None
    resolved = protocol.with_resolved_times(event, MOMENTS, ZONE)

    utc = [protocol.value(column, resolved.wire[column.name], ZONE) for column in MOMENTS.columns]
    assert [f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (utc[0], utc[2])] == [first, second]
    assert (resolved.wire["c1"], resolved.wire["c3"]) == (7, "2024-07-01 08:00:00")


def of_moments(*utc: str) -> TableSchema:
    return table(*[MySqlType(Kind.TIMESTAMP)] * len(utc))


def checksum_of(*utc: str) -> int:
    return crc32(b"".join(map(text, utc)))


TWICE, FIRST, SECOND = "2024-11-03 01:30:00", "2024-11-03 05:30:00", "2024-11-03 06:30:00"


@pytest.mark.parametrize("utc", [(SECOND, *[FIRST] * 5), (*[FIRST] * 5, SECOND), tuple([SECOND] * 6)], ids=str)
def test_each_choice_of_six_times_that_occur_twice_is_tried(utc: tuple[str, ...]):
    event = with_checksum(row({f"c{n}": TWICE for n in range(6)}), Checksum(checksum_of(*utc), 0))

    assert simple.verify(event, of_moments(*utc), ZONE) is None
    wire = simple.with_resolved_times(event, of_moments(*utc), ZONE).wire
    assert tuple(wire[f"c{n}"]["value"] for n in range(6)) == utc


@pytest.mark.parametrize(
    ("utc", "matches"),
    [([FIRST] * 7, True), ([SECOND] * 7, True), ([SECOND, *[FIRST] * 6], False), ([*[SECOND] * 6, FIRST], False)],
)
def test_of_seven_such_times_only_all_first_and_all_second_are_tried_and_none_is_resolved(
    utc: list[str], matches: bool
):
    event = with_checksum(row({f"c{n}": TWICE for n in range(7)}), Checksum(checksum_of(*utc), 0))

    assert (simple.verify(event, of_moments(*utc), ZONE) is None) is matches
    assert simple.with_resolved_times(event, of_moments(*utc), ZONE) is event


@pytest.mark.parametrize(
    ("op", "sums", "more", "new", "old"),
    [
        (Op.INSERT, (SECOND, None), {}, SECOND, None),
        (Op.INSERT, (None, SECOND), {}, None, None),
        (Op.DELETE, (None, SECOND), {}, SECOND, None),
        (Op.UPDATE, (FIRST, SECOND), {"before": {"c0": TWICE}}, FIRST, SECOND),
        (Op.UPDATE, (None, SECOND), {"before": {"c0": TWICE}}, None, SECOND),
        (Op.UPDATE, (SECOND, None), {"before": {"c0": TWICE}}, SECOND, None),
        (Op.UPDATE, (SECOND, FIRST), {"before": {"c0": TWICE}, "before_is_partial": True}, SECOND, None),
        (Op.INSERT, (SECOND, None), {"handle_only": True}, None, None),
    ],
)
def test_the_new_and_the_old_values_are_resolved_by_their_own_checksums(
    op: Op, sums: tuple[str | None, str | None], more: dict[str, Any], new: str | None, old: str | None
):
    current, previous = (0 if utc is None else checksum_of(utc) for utc in sums)
    event = with_checksum(row({"c0": TWICE}, op, **more), Checksum(current, previous))

    found = simple.with_resolved_times(event, of_moments(TWICE), ZONE)

    assert found.wire["c0"] == (TWICE if new is None else {"location": "UTC", "value": new})
    if found.before is not None:
        assert found.before["c0"] == (TWICE if old is None else {"location": "UTC", "value": old})
    assert (found is event) == (new is old is None)


def test_without_a_checksum_that_matches_such_a_row_stays_as_it_is():
    event = in_the_repeated_hour("2024-11-03 05:30:00", "2024-11-03 07:30:00")

    assert "checksum" in (simple.verify(event, MOMENTS, ZONE) or "")
    assert simple.with_resolved_times(event, MOMENTS, ZONE) is event
    assert simple.with_resolved_times(row(event.wire), MOMENTS, ZONE).wire is event.wire
