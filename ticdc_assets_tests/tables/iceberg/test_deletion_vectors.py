"""Deletion vectors, in the bytes that Iceberg's format asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table import deletion_vector as of_pyiceberg
from pyiceberg.table.puffin import PuffinFile

from ticdc_assets.tables.iceberg.deletion_vectors import DeletionVector, blob_of, positions_of, puffin_of

POSITIONS = st.sets(st.integers(0, 1 << 40), max_size=50)


@given(POSITIONS)
def test_what_is_written_is_read_again(positions: set[int]):
    assert set(positions_of(blob_of(positions))) == positions


@given(st.sets(st.integers(0, 1 << 34), max_size=50))
def test_pyiceberg_reads_what_is_written(positions: set[int]):
    bitmaps = of_pyiceberg.DeletionVector._deserialize_bitmap(of_pyiceberg._extract_vector_payload(blob_of(positions)))

    assert {(key << 32) + low for key, bitmap in enumerate(bitmaps) for low in bitmap} == positions


def test_the_bytes_are_those_of_the_format():
    """Positions 1 and 3: one bucket of the high bits 0, in it one array container with two values."""
    bitmap = "0100000000000000" + "00000000" + "3a30000001000000" + "00000100" + "10000000" + "01000300"

    blob = blob_of([1, 3])

    assert blob[:4] == (4 + len(bitmap) // 2).to_bytes(4, "big")
    assert blob[4:-4].hex() == "d1d33964" + bitmap


@pytest.mark.parametrize("at", [0, 5, 12, -1])
def test_a_damaged_vector_is_not_read(at: int):
    blob = bytearray(blob_of([1, 3, 1 << 33]))
    blob[at] ^= 1

    with pytest.raises(ValueError, match="a deletion vector that is damaged"):
        positions_of(bytes(blob))


@given(st.lists(POSITIONS, min_size=1, max_size=4))
def test_pyiceberg_finds_each_vector_of_a_puffin_file(deleted: list[set[int]]):
    vectors = [DeletionVector(f"file:///é{n}.parquet", blob_of(rows), len(rows)) for n, rows in enumerate(deleted)]

    written, offsets = puffin_of(vectors)

    read = PuffinFile(written)
    assert [written[at : at + len(v.blob)] for at, v in zip(offsets, vectors, strict=True)] == [v.blob for v in vectors]
    assert [read.get_blob_payload(blob) for blob in read.footer.blobs] == [vector.blob for vector in vectors]
    assert [blob.properties["referenced-data-file"] for blob in read.footer.blobs] == [v.data_uri for v in vectors]
    assert [blob.properties["cardinality"] for blob in read.footer.blobs] == [str(len(rows)) for rows in deleted]
