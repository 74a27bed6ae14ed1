"""Defaults at the bounds of what a server takes: years of two digits, rounding, numbers for labels, long literals."""

from __future__ import annotations

import pytest

from ticdc_assets.schema.model import Default
from ticdc_assets_tests.schema.ddl.statements import default

DEFAULTS = [
    # Years of two digits are of 1970 to 2069.
    ("YEAR DEFAULT 69", "2069"),
    ("YEAR DEFAULT 70", "1970"),
    ("YEAR DEFAULT '69'", "2069"),
    ("YEAR DEFAULT 1", "2001"),
    ("YEAR DEFAULT 99", "1999"),
    ("YEAR DEFAULT 100", "100"),
    ("YEAR DEFAULT '000'", "2000"),
    ("YEAR DEFAULT '00000'", "0000"),
    ("YEAR DEFAULT 12345", "12345"),
    ("YEAR DEFAULT -5", "-5"),
    ("YEAR DEFAULT 2023.5", "2024"),
    ("YEAR DEFAULT 'x'", "x"),
    ("DATE DEFAULT '69-01-02'", "2069-01-02"),
    ("DATE DEFAULT '70-01-02'", "1970-01-02"),
    ("DATE DEFAULT '690102'", "2069-01-02"),
    ("DATE DEFAULT '700102'", "1970-01-02"),
    ("DATE DEFAULT 700102", "1970-01-02"),
    ("DATE DEFAULT '069-01-02'", "0069-01-02"),
    ("DATE DEFAULT '0-0-0'", "0000-00-00"),
    ("DATE DEFAULT '0-0-1'", "2000-00-01"),
    ("DATE DEFAULT '000000'", "0000-00-00"),
    # Dates and times in any spelling.
    ("DATE DEFAULT '2024/1/2'", "2024-01-02"),
    ("DATE DEFAULT '0'", "0"),
    ("DATE DEFAULT '2024-01'", "2024-01"),
    ("DATE DEFAULT '2024-01-02 10:11:12'", "2024-01-02"),
    ("DATE DEFAULT '2024-00-00'", "2024-00-00"),
    ("DATE DEFAULT '2024-02-30 23:59:59.9'", "2024-02-30"),
    ("DATETIME DEFAULT '20240102030405'", "2024-01-02 03:04:05"),
    ("DATETIME(1) DEFAULT '240102030405.67'", "2024-01-02 03:04:05.7"),
    ("DATETIME DEFAULT '2024-01-02T03'", "2024-01-02 03:00:00"),
    ("DATETIME DEFAULT '2024-01-02 03:04'", "2024-01-02 03:04:00"),
    ("DATETIME(6) DEFAULT '2024-01-02 03:04:05.'", "2024-01-02 03:04:05.000000"),
    ("DATETIME(6) DEFAULT '2024-01-02 03:04:05.123456'", "2024-01-02 03:04:05.123456"),
    ("DATETIME(3) DEFAULT '2024-01-02 03:04:05.0004'", "2024-01-02 03:04:05.000"),
    ("DATETIME(3) DEFAULT '2024-01-02 03:04:05.0005'", "2024-01-02 03:04:05.001"),
    ("DATETIME DEFAULT '2024-02-30'", "2024-02-30"),
    ("DATETIME DEFAULT '9999-12-31 23:59:59.9'", "9999-12-31 23:59:59.9"),
    ("DATETIME DEFAULT '2024-00-01'", "2024-00-01"),
    ("TIME DEFAULT 12", "00:00:12"),
    ("TIME DEFAULT 8385959", "838:59:59"),
    ("TIME DEFAULT '-12'", "-00:00:12"),
    ("TIME DEFAULT '1:2'", "01:02:00"),
    ("TIME DEFAULT '0:0:59.5'", "00:01:00"),
    ("TIME DEFAULT '-0:0:0.5'", "-00:00:01"),
    ("TIME DEFAULT '-0:0:0'", "00:00:00"),
    ("TIME(6) DEFAULT '1:2:3.000001'", "01:02:03.000001"),
    ("TIME(2) DEFAULT '1:2:3.994'", "01:02:03.99"),
    ("TIME(2) DEFAULT '1:2:3.995'", "01:02:04.00"),
    ("TIME DEFAULT '-1 10'", "-34:00:00"),
    ("TIME DEFAULT 'noon'", "noon"),
    # Numbers.
    ("INT DEFAULT 2.5", "3"),
    ("INT DEFAULT -2.5", "-3"),
    ("INT DEFAULT -0.4", "0"),
    ("INT DEFAULT '7 '", "7"),
    ("INT DEFAULT 'x'", "x"),
    ("INT DEFAULT --5", "5"),
    ("INT DEFAULT -+-5", "5"),
    ("INT DEFAULT -+5", "-5"),
    ("DECIMAL(3,1) DEFAULT 0.05", "0.1"),
    ("DECIMAL(3,1) DEFAULT -0.04", "0.0"),
    ("FLOAT(5,1) DEFAULT 0.25", "0.2"),
    ("FLOAT(5,1) DEFAULT 0.35", "0.4"),
    ("FLOAT(5,0) DEFAULT 2.5", "2"),
    ("DOUBLE(5,1) DEFAULT 'x'", "x"),
    ("DOUBLE(5,1) DEFAULT 1e308", "1e308"),
    ("BIT(8) DEFAULT b''", "0"),
    ("INT DEFAULT b''", "0"),
    ("INT DEFAULT x''", "0"),
    ("BIT(9) DEFAULT b'100000001'", "257"),
    ("BIT(8) DEFAULT 1.5", "1.5"),
    ("VARCHAR(9) DEFAULT 0.0", "0.0"),
    ("VARCHAR(9) DEFAULT -0", "0"),
    ("VARCHAR(9) DEFAULT -5", "-5"),
    ("VARCHAR(9) DEFAULT 1E2", "100"),
    ("VARCHAR(9) DEFAULT 1.25e1", "12.5"),
    ("VARCHAR(400) DEFAULT 1e999", "1e999"),
    # Labels by name, without regard to case and blanks at the end, and by number.
    ("ENUM('a','A') DEFAULT 'A'", "A"),
    ("ENUM('a','b') DEFAULT 'B '", "b"),
    ("ENUM('a','A') DEFAULT 'a '", "a"),
    ("ENUM('a','b') DEFAULT 2", "b"),
    ("ENUM('a','b') DEFAULT 3", "3"),
    ("ENUM('a','b') DEFAULT 0", "0"),
    ("ENUM('a','b') DEFAULT 00002", "b"),
    ("ENUM('a','b') DEFAULT 000002", "000002"),
    ("ENUM('1','2') DEFAULT '2'", "2"),
    ("ENUM('2','1') DEFAULT '1'", "1"),
    ("ENUM('a') DEFAULT 'z'", "z"),
    ("SET('a','b','c') DEFAULT 5", "a,c"),
    ("SET('a','b') DEFAULT 0", ""),
    ("SET('a','b') DEFAULT 'b,a'", "a,b"),
    ("SET('a','b') DEFAULT 'B ,b'", "b"),
    ("SET('a','b') DEFAULT 'b,z'", "b,z"),
    (f"SET('a','b') DEFAULT {'2'.zfill(20)}", "b"),
    (f"SET('a','b') DEFAULT {'2'.zfill(21)}", "2".zfill(21)),
    ("SET DEFAULT 3", "3"),
]  # fmt: skip


@pytest.mark.parametrize(("definition", "expected"), DEFAULTS)
def test_a_default_is_what_the_server_makes_of_it(definition: str, expected: str):
    assert default(definition) == Default(expected)


def test_a_number_of_more_digits_than_any_column_has_stays_as_written():
    assert default("DECIMAL(65) DEFAULT 1e400") == Default("1" + "0" * 400)
    assert default("DECIMAL(65) DEFAULT 1e401") == Default("1e401")
    assert default(f"INT DEFAULT x'{'01' * 32}'") == Default(str(int.from_bytes(b"\1" * 32)))
    assert default(f"INT DEFAULT x'{'01' * 33}'") == Default(f"0x{'01' * 33}")


EXPRESSIONS = [
    ("TIMESTAMP DEFAULT LOCALTIME", "CURRENT_TIMESTAMP"),
    ("TIMESTAMP DEFAULT LOCALTIMESTAMP(0)", "CURRENT_TIMESTAMP"),
    ("TIMESTAMP(6) DEFAULT (NOW(6))", "CURRENT_TIMESTAMP(6)"),
    ("DATE DEFAULT CURDATE()", "CURRENT_DATE"),
    ("INT DEFAULT NEXTVAL FOR q", "NEXTVAL FOR q"),
    ("INT DEFAULT (5) + 1", None),
    ("INT DEFAULT (5 + 1)", "(5 + 1)"),
    ("INT DEFAULT ((5)", None),
    ("INT DEFAULT RAND()", "RAND()"),
    ("INT DEFAULT RAND", None),
]  # fmt: skip


@pytest.mark.parametrize(("definition", "expected"), EXPRESSIONS)
def test_a_default_that_is_computed_is_an_expression_in_one_spelling(definition: str, expected: str | None):
    if expected is None:
        with pytest.raises(Exception, match="character"):
            default(definition)
    else:
        assert default(definition) == Default(expression=expected)
