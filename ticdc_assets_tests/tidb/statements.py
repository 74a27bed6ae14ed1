"""Random tables, rows and statements in the form in which TiDB restores them, which is what TiCDC sends."""

# ruff: noqa: E501 (literals in lines)

from __future__ import annotations

from dataclasses import dataclass
from random import Random

TEXT_SETS = (
    "",
    "",
    "",
    " CHARACTER SET UTF8MB4 COLLATE utf8mb4_general_ci",
    " CHARACTER SET UTF8MB4 COLLATE utf8mb4_0900_bin",
    " CHARACTER SET UTF8",
    " CHARACTER SET LATIN1",
    " CHARACTER SET ASCII",
    " CHARACTER SET GBK",
    " CHARACTER SET BINARY",
    " COLLATE utf8mb4_unicode_ci",
)
LABELS = ("a", "B", "c c", "o''k", "é", "10", "d", "E5")


def quoted(text: str) -> str:
    """A string as a restored statement has it: nothing is escaped but the quote."""
    return "_UTF8MB4'" + text.replace("'", "''") + "'"


def any_type(random: Random) -> str:
    """The text of a type."""
    kind = random.choice(KINDS)
    return kind if isinstance(kind, str) else kind(random)


def _integer(random: Random) -> str:
    kind = random.choice(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"))
    return kind + random.choice(("", "", "(5)", " UNSIGNED", " UNSIGNED", "(4) UNSIGNED ZEROFILL"))


def _decimal(random: Random) -> str:
    digits = random.choice((1, 3, 5, 10, 20, 30, 38, 40, 65))
    scale = random.choice((0, 0, 1, 2, 4, 10, 30))
    return f"DECIMAL({digits},{min(scale, digits)})" + random.choice(("", "", "", " UNSIGNED"))


def _float(random: Random) -> str:
    kind = random.choice(("FLOAT", "DOUBLE", "FLOAT", "DOUBLE", "FLOAT(7,2)", "DOUBLE(10,3)", "FLOAT(30)"))
    return kind + random.choice(("", "", "", " UNSIGNED"))


def _text(random: Random) -> str:
    sized = random.choice(("CHAR", "VARCHAR"))
    kind = random.choice((f"{sized}({random.choice((1, 3, 5, 10, 20, 40))})", "TINYTEXT", "TEXT", "LONGTEXT", "CHAR"))
    return kind + random.choice(TEXT_SETS)


def _binary(random: Random) -> str:
    sized = random.choice(("BINARY", "VARBINARY"))
    return random.choice((f"{sized}({random.choice((1, 4, 8, 20))})", "TINYBLOB", "BLOB", "LONGBLOB", "BINARY"))


def _moment(random: Random) -> str:
    kind = random.choice(("DATETIME", "TIMESTAMP", "TIME"))
    return kind + random.choice(("", "(1)", "(3)", "(6)"))


def _labelled(random: Random) -> str:
    labels = random.sample(LABELS, random.randint(1, 5))
    listed = ",".join(f"'{label}'" for label in labels)
    return f"{random.choice(('ENUM', 'SET'))}({listed})" + random.choice(("", "", "", *TEXT_SETS[3:5]))


def _bit(random: Random) -> str:
    return f"BIT({random.choice((1, 3, 8, 20, 63, 64))})"


KINDS = (_integer, _integer, _decimal, _float, _text, _text, _binary, _moment, _moment, _labelled, _bit,
         "DATE", "YEAR", "JSON")  # fmt: skip

# -- literals ---------------------------------------------------------------------------------------------------------

_NUMBERS = (
    *("0", "1", "-1", "5", "12", "99", "100", "127", "128", "-128", "255", "2020", "32767", "65535", "2147483647"),
    *("-2147483648", "4294967295", "9007199254740993", "9223372036854775807", "-9223372036854775808"),
    *("18446744073709551615", "1.5", "2.5", "-2.5", "-0.5", "0.05", "1.005", "99.995", "0.1", "3.14159265358979"),
    *("1e2", "1.5e3", "1e-3", "1e20", "123456789.987654321", "TRUE", "FALSE", "-0.0", "16777217", "0.3", "1e38"),
)
_NUMBERS_IN_TEXT = ("7", " 42 ", "-3.7", "1e3", "007", "12abc", "", "0x1F", "1.50", "18446744073709551615", "+5", ".5")
_TEXTS = (
    *("", " ", "a", "A", "abc", "abc  ", " x", "B", "c c", "é", "😀", "日本", "a'b", "a\\b", "E5", "d,a", "a,B", "10"),
    *("2020-01-02", "12:34:56", "2020-01-02 03:04:05.5", "null", '{"a": 1}', "[1,2]", "true", "2", "1,2", "ß", "É"),
    *("x" * 39, "ab\tc", "a\nb", "a\0", "\0"),
)
_DATES = (
    *("2020-01-02", "2020-1-2", "20200102", "200102", "20-1-2", "0000-00-00", "2020-02-30", "9999-12-31", "1000-01-01"),
    *("0001-01-01", "2020-01-02 03:04:05", "2020-01-02 23:59:59.999999", "2020-01-02T03:04:05.5", "2021-06-07 08:09"),
    *(
        "1970-01-01 00:00:01",
        "2038-01-19 03:14:07",
        "2020-12-31 23:59:59.5",
        "2020/3/4 5:6:7.89",
        "2020-00-00",
        "70-1-1",
    ),
    *(
        "2020-01-02 03:04:05+08:00",
        "0000-00-00 00:00:00",
        "20200102030405",
        "1999-12-31 23:59:59.4999999",
        "2020-05-00",
    ),
)
_TIMES = (
    *("12:34:56", "-12:34:56.5", "838:59:59", "-838:59:59", "1 2:3:4", "12:34", "123456", "0", "00:00:00", "-0:0:0.4"),
    *("23:59:59.999999", "1:2:3.45", "100:00:00.125", "-100:00:00.125", "1 12", "5", "-5", "2:3.5", "12:34:56.4999999"),
)
_BARE_TIMES = ("20200102", "20200102030405", "200102", "123456", "0", "5", "-5", "101.5")
_HEX = ("x'41'", "x'616263'", "x'05'", "x''", "x'ff'", "x'00ff00'", "b'101'", "b''", "b'1'", "b'11111111'")
_JSON = ('{"b":1,"a":[1, 2.50]}', "null", "1", '"x"', "[]", '{"k": "é\\u00e9"}', "1e3", "1.0", "123456789012345678901")
_YEARS = (
    "2020",
    "1901",
    "2155",
    "0",
    "99",
    "70",
    "69",
    "1",
    "'99'",
    "'0'",
    "'00'",
    "'2000'",
    "'1'",
    "'0000'",
    "2020.4",
)


def any_literal(random: Random, of: str) -> str:
    """A literal for a column of that type; the server may refuse it, or take it for another value."""
    kind = of.partition("(")[0].partition(" ")[0]
    if random.random() < 0.08:
        return random.choice((random.choice(_NUMBERS), quoted(random.choice(_TEXTS)), random.choice(_HEX)))
    if kind in ("ENUM", "SET"):
        return _any_label(random, of)
    if kind == "YEAR":
        year = random.choice(_YEARS)
        return quoted(year.strip("'")) if year.startswith("'") else year
    for kinds, texts, bare in _CHOICES:
        if kind in kinds:
            return quoted(random.choice(texts)) if random.random() < 0.7 or not bare else random.choice(bare)
    numbers = (*_NUMBERS, *_HEX) if kind == "BIT" else _NUMBERS
    return random.choice(numbers) if random.random() < 0.75 else quoted(random.choice(_NUMBERS_IN_TEXT))


_CHOICES = (
    (("DATE", "DATETIME", "TIMESTAMP"), _DATES, _BARE_TIMES),
    (("TIME",), _TIMES, _BARE_TIMES),
    (("JSON",), _JSON, ()),
    (("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "LONGTEXT"), (*_TEXTS, *_TEXTS, *_NUMBERS_IN_TEXT), (*_NUMBERS, *_HEX)),
    (("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "LONGBLOB"), _TEXTS, (*_HEX, *_HEX, *_NUMBERS)),
)


def _any_label(random: Random, of: str) -> str:
    labels = [label.replace("''", "'") for label in of[of.index("('") + 2 : of.index("')")].split("','")]
    chosen = random.sample(labels, random.randint(1, len(labels) if of.startswith("SET") else 1))
    text = ",".join(chosen)
    forms = (quoted(text), quoted(text), quoted(text.upper()), quoted(text + " "), str(random.randint(0, len(labels))))
    return random.choice(forms)


# -- tables -----------------------------------------------------------------------------------------------------------

_NO_DEFAULT = ("TINYTEXT", "TEXT", "LONGTEXT", "TINYBLOB", "BLOB", "LONGBLOB", "JSON")


def definition(random: Random, name: str, of: str) -> str:
    """A column; its default may be one that the server refuses."""
    parts = [f"`{name}`", of, random.choice(("", "", "NOT NULL"))]
    if of.partition("(")[0].partition(" ")[0] not in _NO_DEFAULT and random.random() < 0.6:
        parts.append(f"DEFAULT {any_literal(random, of) if random.random() < 0.95 else 'NULL'}")
    return " ".join(part for part in parts if part)


SCRIPTS = ("n", "İ", "ſ", "n", "ς", "µ", "名")
"""What names begin with: some letters change their number, or into others, in upper or lower case."""


@dataclass
class Table:
    """What the generator knows of a table: the names and types of its columns but `rn`."""

    name: str
    types: dict[str, str]
    made: int = 0

    def new_name(self) -> str:
        self.made += 1
        return f"{SCRIPTS[self.made % len(SCRIPTS)]}{self.made}"


def any_table(random: Random, name: str) -> tuple[Table, str]:
    """A table of random columns and key, and its statement."""
    types = {f"c{i}": any_type(random) for i in range(random.randint(1, 6))}
    parts = ["`rn` INT NOT NULL", *(definition(random, column, of) for column, of in types.items())]
    keyed = [column for column, of in types.items() if of.partition("(")[0].partition(" ")[0] not in _NO_DEFAULT]
    key = ["rn", *random.sample(keyed, min(len(keyed), random.choice((0, 0, 1, 2))))]
    random.shuffle(key)
    listed = ",".join(f"`{column}`" for column in key)
    parts += random.choice(
        ([f"PRIMARY KEY({listed})"], [f"PRIMARY KEY({listed})"], [f"UNIQUE `u`({listed})"], ["UNIQUE(`rn`)"], [])
    )
    if random.random() < 0.15:
        parts.insert(
            1,
            random.choice(
                ("`g` INT GENERATED ALWAYS AS(`rn`+1) VIRTUAL", "`g` INT GENERATED ALWAYS AS(`rn`*2) STORED")
            ),
        )
    options = random.choice(("", "", " DEFAULT CHARACTER SET = UTF8MB4 DEFAULT COLLATE = UTF8MB4_GENERAL_CI",
                             " DEFAULT CHARACTER SET = GBK", " DEFAULT CHARACTER SET = LATIN1", " DEFAULT COLLATE = BINARY"))  # fmt: skip
    return Table(name, types), f"CREATE TABLE `{name}` ({','.join(parts)}){options}"


def any_row(random: Random, table: Table, number: int) -> str:
    """An INSERT of one row."""
    cells = {column: "NULL" if random.random() < 0.1 else any_literal(random, of) for column, of in table.types.items()}
    names = ",".join(f"`{name}`" for name in ("rn", *cells))
    return f"INSERT IGNORE INTO `{table.name}` ({names}) VALUES ({','.join([str(number), *cells.values()])})"


def any_action(random: Random, table: Table) -> tuple[str, dict[str, str | None]]:
    """An action of an ALTER TABLE, and what becomes of names: a type, or None for a column that goes."""
    names = list(table.types)
    choice = random.choice(
        ("add", "add", "modify", "modify", "change", "rename", "drop", "default", "unique", "charset")
    )
    if not names or choice == "add":
        name, of = table.new_name(), any_type(random)
        place = random.choice(("", "", " FIRST", f" AFTER `{random.choice(names or ['rn'])}`"))
        return f"ADD COLUMN {definition(random, name, of)}{place}", {name: of}
    name = random.choice(names)
    match choice:
        case "modify":
            of = any_type(random)
            place = random.choice(("", "", "", " FIRST", " AFTER `rn`"))
            return f"MODIFY COLUMN `{name}` {of}{random.choice(('', '', ' NOT NULL'))}{place}", {name: of}
        case "change":
            new, of = table.new_name(), random.choice((table.types[name], any_type(random)))
            return f"CHANGE COLUMN `{name}` {definition(random, new, of)}", {name: None, new: of}
        case "rename":
            new = table.new_name()
            return f"RENAME COLUMN `{name}` TO `{new}`", {name: None, new: table.types[name]}
        case "drop":
            return f"DROP COLUMN `{name}`", {name: None}
        case "default":
            return f"ALTER COLUMN `{name}` SET DEFAULT {any_literal(random, table.types[name])}", {}
        case "unique":
            return f"ADD UNIQUE(`rn`, `{name}`)", {}
    named = random.choice(("UTF8MB4", "UTF8MB4 COLLATE UTF8MB4_GENERAL_CI", "UTF8"))
    return f"CONVERT TO CHARACTER SET {named}", {}


def any_alter(random: Random, table: Table) -> tuple[str, dict[str, str | None]]:
    """An ALTER TABLE of one to three actions on different columns."""
    actions: list[str] = []
    become: dict[str, str | None] = {}
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        action, changed = any_action(random, table)
        if not become.keys() & changed.keys():
            actions.append(action)
            become |= changed
    return f"ALTER TABLE `{table.name}` {', '.join(actions)}", become
