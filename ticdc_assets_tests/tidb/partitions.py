"""Histories of partitioned tables: RANGE and LIST by columns and functions, and partitions that come and go."""

# ruff: noqa: E501 (literals in lines)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from ticdc_assets_tests.tidb.recording import History, Recorder
from ticdc_assets_tests.tidb.server import LOOSE, Tidb
from ticdc_assets_tests.tidb.statements import any_literal

BY_COLUMN = ("TINYINT", "SMALLINT UNSIGNED", "INT", "INT UNSIGNED", "BIGINT", "BIGINT UNSIGNED", "CHAR(10)", "VARCHAR(20)",
             "VARCHAR(20) CHARACTER SET UTF8MB4 COLLATE utf8mb4_general_ci", "DATE", "DATETIME", "DATETIME(3)", "TIME",
             "VARBINARY(8)", "BINARY(4)", "VARCHAR(20) CHARACTER SET UTF8MB4 COLLATE utf8mb4_0900_bin",
             "VARCHAR(9) CHARACTER SET LATIN1", "VARCHAR(9) CHARACTER SET GBK")  # fmt: skip
FUNCTIONS = (
    *(("YEAR(`a`)", "DATE"), ("YEAR(`a`)", "DATETIME"), ("MONTH(`a`)", "DATE"), ("TO_DAYS(`a`)", "DATE")),
    *(("TO_DAYS(`a`)", "DATETIME(3)"), ("UNIX_TIMESTAMP(`a`)", "TIMESTAMP"), ("UNIX_TIMESTAMP(`a`)", "TIMESTAMP(3)")),
    *(("FLOOR(UNIX_TIMESTAMP(`a`))", "TIMESTAMP(3)"), ("`a`", "INT"), ("`a`", "BIGINT UNSIGNED"), ("`a`", "TINYINT")),
    *(("`a`+1", "INT"), ("ABS(`a`)", "INT"), ("DAY(`a`)", "DATE"), ("QUARTER(`a`)", "DATE"), ("MOD(`a`, 7)", "INT")),
    *(("TO_SECONDS(`a`)", "DATETIME"), ("DAYOFYEAR(`a`)", "DATE"), ("WEEKDAY(`a`)", "DATE"), ("`a`", "BIT(8)")),
    *(("YEARWEEK(`a`)", "DATE"), ("HOUR(`a`)", "DATETIME"), ("EXTRACT(YEAR FROM `a`)", "DATE"), ("`a`", "YEAR")),
)
_BOUNDS = {
    "YEAR": ("1971", "2000", "2020", "2021", "2037"),
    "TO_DAYS": ("0", "366", "719529", "737791", "TO_DAYS(_UTF8MB4'2020-01-02')", "TO_DAYS(_UTF8MB4'2020-12-31')", "800000"),
    "UNIX": ("1", "1577934245", "UNIX_TIMESTAMP(_UTF8MB4'2020-01-02 03:04:05')", "UNIX_TIMESTAMP(_UTF8MB4'2020-12-31 00:00:00')"),
    "TO_SECONDS": ("62135683200", "63745100000", "65000000000"),
    "": ("-1", "0", "1", "2", "3", "5", "10", "100", "127", "2020", "65535", "2147483647", "9223372036854775807"),
}  # fmt: skip


def histories(tidb: Tidb, count: int, seed: int) -> Iterator[History]:
    """Tables that the server took; of some, no row or partition is there in the end."""
    random = Random(seed)
    made = 0
    while made < count:
        history = _history(tidb, random)
        tidb.run("DROP TABLE IF EXISTS `t`")
        if history is not None:
            made += 1
            yield {"id": f"partitions_{seed}_{made}", "mode": LOOSE, "zone": "UTC", **history}


def _history(tidb: Tidb, random: Random) -> History | None:
    recorder = Recorder(tidb, "t")
    types, cut, literals = any_cut(random)
    columns = ",".join(f"`{name}` {of}" for name, of in types.items())
    method = random.choice(("RANGE", "RANGE", "LIST"))
    partitions = _ranges(tidb, random, literals, cut) if method == "RANGE" else _lists(random, literals)
    by = f"PARTITION BY {method} {cut}"
    if not recorder.state(f"CREATE TABLE `t` (`rn` INT NOT NULL,{columns}) {by} ({','.join(partitions)})"):
        return None
    names = [f"p{n}" for n in range(len(partitions))]
    number = 0
    for _ in range(random.randint(2, 4)):
        inserts = []
        for _ in range(14):
            number += 1
            values = [
                random.choice((any_literal(random, of), "NULL", *literals[name][:9])) for name, of in types.items()
            ]
            inserts.append(f"INSERT IGNORE INTO `t` VALUES ({','.join([str(number), *values])})")
        try:
            recorder.change(inserts)
        except UnicodeDecodeError:
            return None
        some = random.sample(names, min(len(names), random.choice((1, 1, 2))))
        listed = ",".join(f"`{name}`" for name in some)
        if random.random() < 0.4 and len(names) > len(some):
            names = [name for name in names if name not in some]
            recorder.state(f"ALTER TABLE `t` DROP PARTITION {listed}")
        else:
            recorder.state(f"ALTER TABLE `t` TRUNCATE PARTITION {listed}")
    return recorder.history


def any_cut(random: Random) -> tuple[dict[str, str], str, dict[str, list[str]]]:
    """Columns with their types, what partitions are made by, and literals for bounds of each."""
    if random.random() < 0.5:
        expression, of = random.choice(FUNCTIONS)
        function = next(f for f in _BOUNDS if expression.removeprefix("FLOOR(").startswith(f))
        return {"a": of}, f"({expression})", {"a": list(_BOUNDS[function])}
    types = {name: random.choice(BY_COLUMN) for name in ("a", "b")[: random.choice((1, 1, 2))]}
    literals = {name: list({any_literal(random, of): None for _ in range(12)}) for name, of in types.items()}
    return types, f"COLUMNS ({','.join(f'`{name}`' for name in types)})", literals


def _ranges(tidb: Tidb, random: Random, literals: dict[str, list[str]], cut: str) -> list[str]:
    bounds = [tuple(random.choice(of) for of in literals.values()) for _ in range(random.randint(1, 4))]
    bounds.sort(key=lambda bound: [_order(tidb, text) for text in bound])
    texts = [",".join(bound) for bound in bounds]
    if random.random() < 0.5:
        texts.append(",".join(["MAXVALUE"] * len(literals)))
    return [f"PARTITION `p{n}` VALUES LESS THAN ({text})" for n, text in enumerate(dict.fromkeys(texts))]


def _order(tidb: Tidb, text: str) -> tuple[float, str]:
    try:
        return float(text), ""
    except ValueError:
        return 0.0, tidb.run(f"SELECT HEX({text})")[0][0] or ""


def _lists(random: Random, literals: dict[str, list[str]]) -> list[str]:
    rows = list({tuple(random.choice((*of, "NULL")) for of in literals.values()): None for _ in range(6)})
    texts = [row[0] if len(row) == 1 else f"({','.join(row)})" for row in rows]
    cuts = sorted(random.sample(range(1, len(texts)), min(2, len(texts) - 1))) if len(texts) > 1 else []
    parts: list[Sequence[str]] = [texts[a:b] for a, b in zip([0, *cuts], [*cuts, len(texts)], strict=True)]
    made = [f"PARTITION `p{n}` VALUES IN ({','.join(part)})" for n, part in enumerate(parts)]
    return [*made, f"PARTITION `p{len(made)}` DEFAULT"] if random.random() < 0.3 else made
