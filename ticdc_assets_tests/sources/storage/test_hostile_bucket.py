"""Damaged metadata, index and schema files: a table waits or is held, the others continue, no other error is raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.errors import NotYetError, SourceError, TicdcAssetsError
from ticdc_assets.sources.storage.scan import read_checkpoint
from ticdc_assets_tests.protocols.hostile.mutations import HOSTILE_BYTES, HOSTILE_TOKENS, Mutant, Mutator, Seed, alone
from ticdc_assets_tests.protocols.hostile.targets import INPUTS, NUMBER, bombard
from ticdc_assets_tests.sources.storage.bucket import ID, NAME, Bucket, paths

FOLDER = "shop/users/100"
SCANS = INPUTS // 500
"""A scan lists folders."""


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    """Two tables of two files each; the first is damaged."""
    made = Bucket(tmp_path)
    for table in ("users", "orders"):
        made.schema("shop", table, 100, [ID, NAME])
        made.files(f"shop/{table}/100", 1, 2)
    return made


def scanned(bucket: Bucket, path: str, mutant: Mutant) -> bool:
    bucket.write(path, mutant.value or b"")
    found = paths(bucket.scan())
    assert {"shop/orders/100/CDC00000000000000000001.csv", "shop/orders/100/CDC00000000000000000002.csv"} <= {*found}
    return any(path.startswith(FOLDER) for path in found)


def test_a_damaged_index_holds_its_table_alone(bucket: Bucket):
    path = f"{FOLDER}/meta/CDC.index"
    seeds = [Seed(((bucket.base / path).read_bytes(),), alone)]

    bombard(lambda mutant: scanned(bucket, path, mutant), Mutator(seeds, NUMBER, HOSTILE_BYTES), SCANS)


def test_a_damaged_schema_file_holds_its_table_alone(bucket: Bucket):
    [path] = (bucket.base / "shop/users/meta").glob("schema_*.json")
    name = path.relative_to(bucket.base).as_posix()
    seeds = [Seed((path.read_bytes(),), alone)]

    bombard(lambda mutant: scanned(bucket, name, mutant), Mutator(seeds, NUMBER), SCANS)


def test_damaged_metadata_are_a_checkpoint_or_refused(bucket: Bucket):
    def checkpoint(mutant: Mutant) -> bool:
        bucket.write("metadata", mutant.value or b"")
        try:
            found = read_checkpoint(bucket.root)
        except (NotYetError, SourceError):
            return False
        assert found is not None
        assert 0 < found < 1 << 63
        return True

    seeds = [Seed((b'{"checkpoint-ts":459802239535939587}',), alone)]

    bombard(checkpoint, Mutator(seeds, NUMBER, [*HOSTILE_TOKENS, *HOSTILE_BYTES]), INPUTS // 100)


@pytest.mark.parametrize("number", ["9223372036854775808", "18446744073709551615", "1e18", "true", "-1", "0", "null"])
def test_a_checkpoint_that_is_no_tso_is_refused(bucket: Bucket, number: str):
    bucket.write("metadata", f'{{"checkpoint-ts":{number}}}'.encode())

    with pytest.raises(TicdcAssetsError, match="metadata"):
        read_checkpoint(bucket.root)
