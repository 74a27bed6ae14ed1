"""TSOs as users write them."""

from __future__ import annotations

import pytest

from ticdc_assets.tso import INT64_MAX, from_physical_ms, parse_tso


@pytest.mark.parametrize(
    ("text", "tso"),
    [
        ("459802240755957764", 459802240755957764),
        ("1970-01-01T00:00:00.001Z", from_physical_ms(1)),
        ("2025-07-31T23:59:10.5409+08:00", from_physical_ms(1_753_977_550_540)),
        ("2025-07-31 15:59:10.540Z", from_physical_ms(1_753_977_550_540)),
        (str(INT64_MAX), INT64_MAX),
    ],
)
def test_a_tso_or_a_time_with_its_zone_is_a_tso(text: str, tso: int):
    assert parse_tso(text) == tso


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("2025-07-31T23:59:10", "a time with its zone, such as 2025-07-31T23:59:10Z"),
        ("yesterday", "a TSO in digits only"),
        ("1969-12-31T23:59:59Z", "a TSO in digits only"),
        ("-5", "a TSO in digits only"),
        (str(INT64_MAX + 1), "at most"),
    ],
)
def test_a_text_that_is_no_tso_and_no_time_is_refused(text: str, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        parse_tso(text)
