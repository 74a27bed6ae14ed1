"""Values as a real TiDB printed and rounded them."""

from __future__ import annotations

import pytest

from ticdc_assets.tables.conversion.functions import printed_double, printed_float, printed_json, rounded_decimal


@pytest.mark.parametrize(
    ("number", "double", "single"),
    [
        (0.1, "0.1", "0.1"),
        (0.1 + 0.2, "0.30000000000000004", "0.3"),
        (1e22, "1" + "0" * 22, "1" + "0" * 22),
        (-1e-7, "-0.0000001", "-0.0000001"),
        (3.1415927410125732, "3.1415927410125732", "3.1415927"),
        (16777216.0, "16777216", "16777216"),
        (None, None, None),
    ],
)
def test_a_number_is_printed_with_the_fewest_digits_and_no_exponent(
    number: float | None, double: str | None, single: str | None
):
    assert (printed_double(number), printed_float(number)) == (double, single)


@pytest.mark.parametrize(
    ("text", "digits", "scale", "expected"),
    [
        ("1.005", 20, 2, "1.01"),
        ("-1.005", 20, 2, "-1.01"),
        ("1.00499999999999999999", 20, 2, "1.00"),
        ("-0.004", 20, 2, "0.00"),
        ("99.995", 4, 2, None),
        ("-99.994", 4, 2, "-99.99"),
        ("0.5", 2, 2, "0.50"),
        ("1", 2, 2, None),
        ("1e300", 65, 0, None),
        (None, 2, 2, None),
    ],
)
def test_a_decimal_rounds_halves_away_from_zero(text: str | None, digits: int, scale: int, expected: str | None):
    assert rounded_decimal(text, digits, scale) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"b":1,"a":[1,2.50,1e3,"x"]}', '{"a": [1, 2.5, 1000, "x"], "b": 1}'),
        ('{"aa":1,"b":2,"b":3}', '{"aa": 1, "b": 3}'),
        ("12345678901234567890123", "1.2345678901234568e+22"),
        ("18446744073709551615", "18446744073709551615"),
        ("1e100", "1e+100"),
        ("9.5e-7", "9.5e-7"),
        ("-0", "0"),
        ("-0.0", "-0"),
        ('"\\u00e9\\b\\/\u2028"', '"é\\u0008/\\u2028"'),
        ("[" * 101 + "]" * 101, None),
        ("NaN", None),
        ("1e400", None),
        ('"\\ud800"', None),
        ("", None),
        (None, None),
    ],
)
def test_json_is_printed_as_tidb_stores_it(text: str | None, expected: str | None):
    assert printed_json(text) == expected
