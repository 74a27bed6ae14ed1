"""What a changelog keeps of the history of its source table: another history is another text."""

from __future__ import annotations

from ticdc_assets.schema.history.fold import fold
from ticdc_assets.schema.history.written_history import INFERRED, WrittenHistory
from ticdc_assets_tests.schema.history.histories import GUESSED, event


def written(*queries: str) -> WrittenHistory:
    history = fold(event(10 * number, "t", query) for number, query in enumerate(queries, 1))
    return WrittenHistory.of(history.source_tables[0])


def test_other_columns_of_a_version_are_another_history():
    one = written("CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT)")
    wider = written("CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` BIGINT)")

    assert (one.names, one.columns) == (wider.names, wider.columns)
    assert one.versions != wider.versions
    assert one.digest != wider.digest
    assert WrittenHistory.from_json(one.to_json()) == one


def test_columns_that_are_inferred_from_rows_are_not_compared():
    (source_table,) = fold([event(10, "t", "", after=GUESSED)]).source_tables

    assert [columns for _, columns in WrittenHistory.of(source_table).versions] == [INFERRED]
