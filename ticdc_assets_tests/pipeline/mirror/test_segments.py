"""The segments of a changelog: where they are cut, and which versions can have a mirror."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.pipeline.mirror import segments
from ticdc_assets.pipeline.mirror.segments import lost_key, reached_versions
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.tables.mirror.writer import ChangelogFile, Segment
from ticdc_assets_tests.schema.history.histories import event

ADD, DROP = "ALTER TABLE `t` ADD PRIMARY KEY (`id`)", "ALTER TABLE `t` DROP PRIMARY KEY"
KEYED, KEYLESS = "CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY)", "CREATE TABLE `t` (`id` INT NOT NULL)"


def source_table(*statements: str) -> SourceTable:
    """A table with these statements at the TSOs 10, 20 and so on."""
    [made] = fold(event(10 * n, "t", text) for n, text in enumerate(statements, 1)).source_tables
    return made


@pytest.mark.parametrize(
    ("statements", "watermark", "lost", "reached"),
    [
        ((KEYED,), 99, None, [10]),
        ((KEYLESS,), 99, None, []),
        ((KEYLESS, ADD), 99, None, [20]),
        ((KEYLESS, ADD), 19, None, []),
        ((KEYED, DROP), 99, 20, [10]),
        ((KEYED, DROP), 20, 20, [10]),
        ((KEYED, DROP), 19, None, [10]),
        ((KEYLESS, ADD, DROP), 99, 30, [20]),
        ((KEYED, DROP, ADD), 99, 20, [10]),
    ],
)
def test_a_mirror_has_the_versions_with_a_key_until_it_is_lost(
    statements: tuple[str, ...], watermark: int, lost: int | None, reached: list[int]
):
    table = source_table(*statements)

    assert lost_key(table, watermark) == lost
    assert [version.from_ts for version, _ in reached_versions(table, watermark)] == reached


SPANS = st.lists(st.tuples(st.integers(11, 40), st.integers(0, 8), st.integers(1, 6)), max_size=8)


@given(SPANS, st.integers(1, 12))
def test_a_long_segment_is_cut_into_parts_that_hold_each_change_once(spans: list[tuple[int, int, int]], rows_max: int):
    """Files are those whose changes may lie in a part, and no others: each is read where it can have any."""
    [version] = source_table(KEYED).versions
    files = sorted(
        (ChangelogFile(f"f{n}", rows, first, min(40, first + more)) for n, (first, more, rows) in enumerate(spans)),
        key=lambda file: (file.first, file.uri),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SEGMENT_ROWS", rows_max)
        parts = list(segments._cut(Segment(version, 10, 40, 50, tuple(files))))

    assert (parts[0].low, parts[-1].high) == (10, 40)
    assert all(before.high == after.low < after.high for before, after in pairwise(parts))
    assert [part.watermark for part in parts] == [*(part.high for part in parts[:-1]), 50]
    for part in parts:
        assert list(part.files) == [f for f in files if max(f.first, part.low + 1) <= min(f.last, part.high)]
        assert part == parts[-1] or sum(file.rows for file in part.files) >= rows_max
    if sum(file.rows for file in files) < rows_max:
        assert len(parts) == 1


def test_a_segment_is_cut_behind_the_file_that_fills_it():
    [version] = source_table(KEYED).versions
    files = tuple(ChangelogFile(f"f{n}", 5, 10 * n + 1, 10 * n + 10) for n in range(1, 5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SEGMENT_ROWS", 10)
        parts = list(segments._cut(Segment(version, 10, 60, 60, files)))

    assert [(part.low, part.high, [file.uri for file in part.files]) for part in parts] == [
        (10, 30, ["f1", "f2"]),
        (30, 60, ["f3", "f4"]),
    ]
