"""Latin-1 texts: decoding a column equals Python's codec for each text."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.protocols.values.latin1_columns import latin1_column

BYTES = st.text(st.characters(max_codepoint=255), max_size=8)


@settings(deadline=None)
@given(st.lists(st.none() | BYTES, max_size=8))
def test_each_character_is_its_byte(texts: list[str | None]):
    found = latin1_column(pa.array(texts, pa.string()))

    assert found is not None
    found.validate(full=True)
    assert found.type == pa.binary()
    assert found.to_pylist() == [None if text is None else text.encode("latin-1") for text in texts]


def test_a_column_without_bytes_has_none():
    for texts in (pa.nulls(2, pa.string()), pa.array([], pa.string())):
        found = latin1_column(texts)
        assert found is not None
        assert (found.type, found.to_pylist()) == (pa.binary(), texts.to_pylist())


@settings(deadline=None)
@given(st.lists(BYTES, max_size=4), BYTES, st.characters(min_codepoint=256, codec="utf-8"), BYTES)
def test_a_text_with_a_character_outside_latin_1_is_refused(texts: list[str], before: str, other: str, behind: str):
    assert latin1_column(pa.array([*texts, before + other + behind], pa.string())) is None
