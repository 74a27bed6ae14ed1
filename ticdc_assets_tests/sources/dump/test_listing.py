"""Which folders are a finished export of Dumpling, and what is in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets.sources.dump.listing import Dump, opened_in, read_dump
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets_tests.fixtures import CORPUS
from ticdc_assets_tests.pipeline.load.dumps import METADATA

CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY);\n"


def dump_of(folder: Path, *names: str, metadata: str = METADATA.format(7)) -> Dump:
    for name in names:
        (folder / name).write_text(CREATE)
    if metadata:
        (folder / "metadata").write_text(metadata)
    return read_dump(open_root(str(folder)))


def test_tables_have_their_files_in_the_order_of_their_numbers(tmp_path: Path):
    names = ("a.t%2E1-schema.sql", "a.t%2E1.000000010.sql", "a.t%2E1.0000000020000.csv", "a.t%2E1.000000009.sql")
    dump = dump_of(tmp_path, "a-schema-create.sql", "x-placement-policy-create.sql", "a.t-schema-triggers.sql", *names)

    [table] = dump.tables
    assert (table.name, dump.tso, dump.databases) == (("a", "t.1"), 7, {"a": CREATE})
    assert [(chunk.number, chunk.path) for chunk in table.chunks] == [(0, names[3]), (1, names[1]), (2, names[2])]


def test_views_and_sequences_are_no_tables(tmp_path: Path):
    names = ("a.v-schema.sql", "a.v-schema-view.sql", "a.s-schema-sequence.sql", "a.t-schema.sql")
    assert [table.name for table in dump_of(tmp_path, *names).tables] == [("a", "t")]


@pytest.mark.parametrize(
    ("names", "metadata", "sentence"),
    [
        (("a.t-schema.sql",), "", "expected the `metadata` of a finished export, found no such file"),
        (("a.t-schema.sql",), "Started dump at: x\n", 'found no line "Finished dump at"'),
        (("result.000000000.csv",), METADATA, "expected files named as Dumpling names them by default"),
        (("a.t-schema.sql", "a.t.000000000.csv.lz4"), METADATA, "expected files named as Dumpling names them"),
        (("a.t.000000000.csv",), METADATA, "expected the schema file of a.t, found none"),
    ],
)
def test_a_folder_that_is_no_complete_dump_is_refused(
    tmp_path: Path, names: tuple[str, ...], metadata: str, sentence: str
):
    with pytest.raises(SourceError) as error:
        dump_of(tmp_path, *names, metadata=metadata)
    assert sentence in str(error.value)


def test_an_export_that_is_no_snapshot_has_no_tso(tmp_path: Path):
    second = METADATA.format(7).replace("Finished", "SHOW MASTER STATUS: /* AFTER */\n\tPos: 8\nFinished")
    assert dump_of(tmp_path, "a.t-schema.sql", metadata=second).tso is None


@pytest.mark.parametrize("variant", ["sql-doubled-snappy", "csv-flags-zstd", "csv-bigquery-gzip"])
def test_a_compressed_file_that_is_cut_off_is_refused(tmp_path: Path, variant: str):
    found = next((CORPUS / "dumps" / variant).glob("shop.kinds.0*"))
    whole = found.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2):
        (tmp_path / found.name).write_bytes(whole[:size])
        with pytest.raises(SourceError), opened_in(open_root(str(tmp_path)), found.name, size) as stream:
            while stream.read(1 << 16):
                pass
