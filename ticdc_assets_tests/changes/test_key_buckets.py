"""Equal keys are in one bucket."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ticdc_assets.changes.key_buckets import in_bucket


@pytest.mark.parametrize(
    "key",
    [
        pa.array([bytes([255, n]) for n in range(40)]),
        pa.array([bytes([255, n]) for n in range(40)], pa.large_binary()),
        pa.array(range(40), pa.decimal128(20, 0)),
        pa.array(range(40), pa.date32()),
        pa.array([f"k{n}" for n in range(40)]),
    ],
    ids=lambda key: str(key.type),
)
def test_a_key_of_any_type_belongs_to_one_part(key: pa.Array):
    parts = [in_bucket([pa.chunked_array([key])], bucket, 3) for bucket in range(3)]

    assert sum(part.astype(int) for part in parts).tolist() == [1] * 40
    again = in_bucket([pa.chunked_array([key.slice(7)])], 1, 3)
    assert again.tolist() == parts[1][7:].tolist()


def test_each_key_belongs_to_one_part():
    keys = [pa.chunked_array([pa.array(range(40))]), pa.chunked_array([pa.array([str(n % 3) for n in range(40)])])]

    parts = [in_bucket(keys, bucket, 3) for bucket in range(3)]

    assert sum(part.astype(int) for part in parts).tolist() == [1] * 40
    assert all(part.any() for part in parts)
