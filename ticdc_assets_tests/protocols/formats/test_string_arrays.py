"""The bytes of string arrays, and where each text begins and ends in them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ticdc_assets.protocols.formats.string_arrays import joined, read_only


@pytest.mark.parametrize(
    ("texts", "data", "bounds"),
    [
        (pa.array([], pa.string()), b"", [0]),
        (pa.nulls(2, pa.string()), b"", [0, 0, 0]),
        (pa.array(["", ""]), b"", [0, 0, 0]),
        (pa.array(["a", None, "bc"]), b"abc", [0, 1, 1, 3]),
        (pa.array(["a", "é", "bc"]).slice(1), "ébc".encode(), [0, 2, 4]),
        (pa.array(["a", "é", "bc"]).slice(1, 1), "é".encode(), [0, 2]),
        (pa.array([b"\xff", b""]), b"\xff", [0, 1, 1]),
    ],
)
def test_texts_stand_one_after_the_other(texts: pa.Array, data: bytes, bounds: list[int]):
    found, places = joined(texts)

    assert (found.tobytes(), places.tolist()) == (data, bounds)
    assert not read_only(found).flags.writeable
