"""Random statements on a database of several tables: what `statements` has for one table, and tables that are renamed,
swapped, truncated, created again and recovered, keys that come and go, and partitions of every method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from ticdc_assets_tests.tidb.partitions import any_cut
from ticdc_assets_tests.tidb.statements import SCRIPTS, Table, any_alter, any_literal, any_row, any_table

NONCLUSTERED = " /*T![clustered_index] NONCLUSTERED */"

_OPTIONS = (
    " SHARD_ROW_ID_BITS = 4 PRE_SPLIT_REGIONS = 2",
    " /*T![auto_id_cache] AUTO_ID_CACHE = 10 */ COMMENT = 'a), (`b`'",
    " AUTO_INCREMENT = 5 ROW_FORMAT = DYNAMIC STATS_PERSISTENT = 1",
)
_MOMENTS = (
    *(
        "1970-01-02 00:00:01",
        "1999-12-31 23:59:59",
        "2000-02-29 12:00:00",
        "2019-12-31 23:30:00",
        "2020-01-01 00:30:00",
    ),
    *(
        "2020-01-02 03:04:05",
        "2020-01-02 03:04:06",
        "2020-06-15 08:00:00",
        "2020-12-31 20:00:00",
        "2021-01-01 05:00:00",
    ),
    *("2024-07-01 00:00:00", "2037-12-31 23:59:58"),
)


@dataclass
class LiveTable(Table):
    """What the generator knows of a table besides its columns: how rows are cut into partitions, by what literals."""

    method: str = ""
    cut: str = ""
    literals: dict[str, list[str]] = field(default_factory=dict)
    partitions: dict[str, list[str]] = field(default_factory=dict)
    """Names with the upper bound (RANGE), or the values (LIST); "" for DEFAULT and for HASH and KEY."""

    def copy(self, name: str) -> LiveTable:
        partitions = {part: list(values) for part, values in self.partitions.items()}
        return LiveTable(name, dict(self.types), self.made, self.method, self.cut, dict(self.literals), partitions)


@dataclass
class Candidate:
    """A statement, and what the generator has to note once the server took it."""

    sql: str
    note: Callable[[], None]


class Statements:
    """Statements on the tables of one database, of which `tables` holds those that are there."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.tables: dict[str, LiveTable] = {}
        self._removed: dict[str, LiveTable] = {}
        """What was dropped or truncated last under each name."""
        self._names: list[str] = []
        self._views = 0
        self._rows = 0

    # -- tables -------------------------------------------------------------------------------------------------------

    def create(self) -> Candidate:
        """A table, in a third of the cases under a name that is free again."""
        made, create = self._partitioned() if self._random.random() < 0.55 else self._plain()
        return Candidate(create, lambda: self._keep(made))

    def _new_name(self) -> str:
        if self._names and self._random.random() < 0.3:
            name = self._random.choice(self._names)
            if name not in self.tables:
                return name
        self._names.append(f"{self._random.choice(('t', 't', *SCRIPTS))}{len(self._names) + 1}")
        return self._names[-1]

    def _plain(self) -> tuple[LiveTable, str]:
        table, create = any_table(self._random, self._new_name())
        key = create.find("PRIMARY KEY(")
        if key >= 0 and self._random.random() < 0.6:
            end = create.index(")", key) + 1
            create = create[:end] + NONCLUSTERED + create[end:]
        create += self._random.choice(("", "", "", *_OPTIONS))
        return LiveTable(table.name, table.types), create

    def _partitioned(self) -> tuple[LiveTable, str]:
        table = LiveTable(self._new_name(), {})
        method = self._random.choice(("RANGE", "RANGE", "LIST", "LIST", "HASH", "KEY"))
        types, cut, table.literals = any_cut(self._random)
        if method == "HASH" and cut.startswith("COLUMNS"):
            types, cut, table.literals = {"a": "INT"}, self._random.choice(("(`rn`)", "(`a`)")), {"a": ["1"]}
        if method == "KEY":
            cut = cut.removeprefix("COLUMNS ") if cut.startswith("COLUMNS") else "(`rn`)"
        table.types = {**types, "v": self._random.choice(("INT", "VARCHAR(20)", "DATETIME(3)", "VARBINARY(8)"))}
        table.method, table.cut = method, cut
        keyed = self._random.choice(("PRIMARY", "PRIMARY", "PRIMARY", "UNIQUE", ""))
        columns = ["`rn` INT NOT NULL"]
        columns += [
            f"`{name}` {of}{' NOT NULL' if keyed and name in types else ''}" for name, of in table.types.items()
        ]
        listed = ",".join(f"`{name}`" for name in ("rn", *types))
        columns += {
            "PRIMARY": [f"PRIMARY KEY({listed}){self._random.choice(('', NONCLUSTERED))}"],
            "UNIQUE": [f"UNIQUE `u`({listed})"],
            "": [],
        }[keyed]
        return table, f"CREATE TABLE `{table.name}` ({','.join(columns)}) {self._partition_by(table)}"

    def _partition_by(self, table: LiveTable) -> str:
        table.partitions = {}
        if table.method in ("HASH", "KEY"):
            table.partitions = {f"p{n}": [""] for n in range(self._random.choice((1, 2, 3, 5)))}
            return f"PARTITION BY {table.method} {table.cut} PARTITIONS {len(table.partitions)}"
        texts = bounds_of(self._random, table.literals, table.method)
        table.partitions = {f"p{n}": values for n, values in enumerate(texts)}
        listed = ",".join(self._partition(table, name, values) for name, values in table.partitions.items())
        return f"PARTITION BY {table.method} {table.cut} ({listed})"

    @staticmethod
    def _partition(table: LiveTable, name: str, values: list[str]) -> str:
        if values == [""]:
            return f"PARTITION `{name}` DEFAULT"
        if table.method == "LIST":
            return f"PARTITION `{name}` VALUES IN ({','.join(values)})"
        return f"PARTITION `{name}` VALUES LESS THAN ({values[0]})"

    def _keep(self, table: LiveTable) -> None:
        self.tables[table.name] = table

    # -- rows ---------------------------------------------------------------------------------------------------------

    def transaction(self) -> list[str]:
        """Statements that go together, on one table or two."""
        chosen = self._random.sample(list(self.tables.values()), min(len(self.tables), self._random.choice((1, 1, 2))))
        return [self._row_statement(self._random.choice(chosen)) for _ in range(self._random.choice((1, 3, 6, 12)))]

    def _row_statement(self, table: LiveTable) -> str:
        kind = self._random.choice(("insert", "insert", "insert", "insert", "update", "update", "move", "delete"))
        some = self._random.randint(1, max(1, self._rows))
        if kind == "insert" or not table.types:
            self._rows += 1
            return self._insert(table)
        if kind == "delete":
            return f"DELETE FROM `{table.name}` WHERE rn = {some}"
        if kind == "move":  # a key that changes
            self._rows += 1
            return f"UPDATE IGNORE `{table.name}` SET rn = {self._rows} WHERE rn > {some} ORDER BY rn LIMIT 1"
        name = self._random.choice(list(table.types))
        value = self._value(table, name)
        return f"UPDATE IGNORE `{table.name}` SET `{name}` = {value} WHERE rn >= {some} ORDER BY rn LIMIT 2"

    def _insert(self, table: LiveTable) -> str:
        if not table.method:
            return any_row(self._random, table, self._rows)
        values = ",".join(self._value(table, name) for name in table.types)
        names = ",".join(f"`{name}`" for name in ("rn", *table.types))
        return f"INSERT IGNORE INTO `{table.name}` ({names}) VALUES ({self._rows},{values})"

    def _value(self, table: LiveTable, name: str) -> str:
        if self._random.random() < 0.05:
            return "NULL"
        of = table.types[name]
        if name in table.literals and of.startswith(("DATE", "TIMESTAMP")):
            return f"_UTF8MB4'{self._random.choice(_MOMENTS)}'"  # of others, a loose sql_mode makes zero dates
        return self._random.choice([any_literal(self._random, of), *table.literals.get(name, [])[:9]])

    # -- statements on a table ----------------------------------------------------------------------------------------

    def statement(self) -> Candidate:
        """Any statement; the server may refuse it."""
        if len(self.tables) < 3 or self._random.random() < 0.06:
            return self.create()
        if self._removed and self._random.random() < 0.06:
            return self._recover()
        table = self._random.choice(list(self.tables.values()))
        if table.method and self._random.random() < 0.75:
            return self._random.choice(self._of_partitions(table))(table)
        return self._random.choice(
            (*[self._alter] * 6, *[self._key] * 3, self._rename, self._swap, self._view, self._truncate, self._drop,
             self._like, self._repartition)
        )(table)  # fmt: skip

    def _alter(self, table: LiveTable) -> Candidate:
        statement, become = any_alter(self._random, table)

        def note() -> None:
            for name, of in become.items():
                table.types.pop(name, None)
                table.types |= {} if of is None else {name: of}

        return Candidate(statement, note)

    def _rename(self, table: LiveTable) -> Candidate:
        new = self._new_name()
        return Candidate(f"RENAME TABLE `{table.name}` TO `{new}`", lambda: self._renamed({table.name: new}))

    def _swap(self, table: LiveTable) -> Candidate:
        other = self._random.choice([name for name in self.tables if name != table.name])
        pairs = ((table.name, "swapped"), (other, table.name), ("swapped", other))
        listed = ", ".join(f"`{old}` TO `{new}`" for old, new in pairs)
        return Candidate(f"RENAME TABLE {listed}", lambda: self._renamed({table.name: other, other: table.name}))

    def _renamed(self, names: dict[str, str]) -> None:
        moved = {new: self.tables.pop(old) for old, new in names.items()}
        for new, table in moved.items():
            table.name = new
            self.tables[new] = table

    def _view(self, table: LiveTable) -> Candidate:
        """A view that comes or goes, often under a name that there was before."""
        self._views = self._views % 2 + 1
        made = f"CREATE VIEW `v{self._views}` AS SELECT `rn` FROM `{table.name}`"
        return Candidate(self._random.choice((made, f"DROP VIEW `v{self._views}`")), lambda: None)

    def _truncate(self, table: LiveTable) -> Candidate:
        return Candidate(f"TRUNCATE TABLE `{table.name}`", lambda: self._remove(table.copy(table.name)))

    def _drop(self, table: LiveTable) -> Candidate:
        return Candidate(f"DROP TABLE `{table.name}`", lambda: self._remove(self.tables.pop(table.name)))

    def _remove(self, table: LiveTable) -> None:
        self._removed[table.name] = table

    def _recover(self) -> Candidate:
        """What was dropped comes back, and what was truncated in another table."""
        name = self._random.choice(list(self._removed))
        new = self._random.choice((name, name, self._new_name()))
        kept = self._random.choice(("RECOVER", "FLASHBACK")) if new == name else "FLASHBACK"
        made = self._removed[name].copy(new)

        def note() -> None:
            del self._removed[name]
            self._keep(made)

        return Candidate(f"{kept} TABLE `{name}`" + ("" if new == name else f" TO `{new}`"), note)

    def _key(self, table: LiveTable) -> Candidate:
        if self._random.random() < 0.5:
            return Candidate(f"ALTER TABLE `{table.name}` DROP PRIMARY KEY", lambda: None)
        others = self._random.sample(list(table.types), min(len(table.types), self._random.choice((0, 0, 1, 2))))
        listed = ",".join(f"`{name}`" for name in ("rn", *(table.literals if table.method else others)))
        kind = self._random.choice(("ADD PRIMARY KEY", "ADD PRIMARY KEY", "ADD UNIQUE `k`"))
        return Candidate(f"ALTER TABLE `{table.name}` {kind}({listed})", lambda: None)

    def _like(self, table: LiveTable) -> Candidate:
        made = table.copy(self._new_name())
        return Candidate(f"CREATE TABLE `{made.name}` LIKE `{table.name}`", lambda: self._keep(made))

    # -- partitions ---------------------------------------------------------------------------------------------------

    def _of_partitions(self, table: LiveTable) -> tuple[Callable[[LiveTable], Candidate], ...]:
        if table.method in ("HASH", "KEY"):
            return (self._truncate_partition, self._more_partitions, self._fewer_partitions, *[self._exchange] * 2)
        return (self._truncate_partition, self._drop_partition, self._add_partition, self._split, self._merge,
                *[self._exchange] * 3)  # fmt: skip

    def _some(self, table: LiveTable) -> list[str]:
        names = list(table.partitions)
        return self._random.sample(names, min(len(names), self._random.choice((1, 1, 2))))

    def _truncate_partition(self, table: LiveTable) -> Candidate:
        return Candidate(f"ALTER TABLE `{table.name}` TRUNCATE PARTITION {_listed(self._some(table))}", lambda: None)

    def _drop_partition(self, table: LiveTable) -> Candidate:
        some = self._some(table)
        return Candidate(
            f"ALTER TABLE `{table.name}` DROP PARTITION {_listed(some)}", lambda: self._cut_out(table, some, {})
        )

    @staticmethod
    def _cut_out(table: LiveTable, gone: list[str], made: dict[str, list[str]]) -> None:
        kept: dict[str, list[str]] = {}
        for name, values in table.partitions.items():
            if name not in gone:
                kept[name] = values
            elif name == gone[0]:
                kept |= made
        table.partitions = kept

    def _add_partition(self, table: LiveTable) -> Candidate:
        used = {value for values in table.partitions.values() for value in values}
        text = bounds_of(self._random, table.literals, table.method)[-1]
        values = [value for value in text if value not in used] or text
        table.made += 1
        name = f"q{table.made}"
        added = self._partition(table, name, values)
        return Candidate(
            f"ALTER TABLE `{table.name}` ADD PARTITION ({added})", lambda: table.partitions.update({name: values})
        )

    def _split(self, table: LiveTable) -> Candidate:
        name = self._random.choice(list(table.partitions))
        values = table.partitions[name]
        table.made += 1
        one, two = f"r{table.made}", f"s{table.made}"
        if table.method == "LIST":
            cut = len(values) // 2
            made = {one: values[:cut], two: values[cut:]} if cut else {one: values}
        else:
            made = {one: bounds_of(self._random, table.literals, "RANGE")[0], two: values}
        return self._reorganize(table, [name], made)

    def _merge(self, table: LiveTable) -> Candidate:
        names = list(table.partitions)
        first = self._random.randrange(len(names))
        chosen = names[first : first + 2]
        table.made += 1
        values = [value for name in chosen for value in table.partitions[name]]
        return self._reorganize(table, chosen, {f"m{table.made}": values if table.method == "LIST" else values[-1:]})

    def _reorganize(self, table: LiveTable, gone: list[str], made: dict[str, list[str]]) -> Candidate:
        listed = ",".join(self._partition(table, name, values) for name, values in made.items())
        return Candidate(
            f"ALTER TABLE `{table.name}` REORGANIZE PARTITION {_listed(gone)} INTO ({listed})",
            lambda: self._cut_out(table, gone, made),
        )

    def _more_partitions(self, table: LiveTable) -> Candidate:
        more = self._random.choice((1, 2))
        made = {f"p{len(table.partitions) + n}": [""] for n in range(more)}
        return Candidate(
            f"ALTER TABLE `{table.name}` ADD PARTITION PARTITIONS {more}", lambda: table.partitions.update(made)
        )

    def _fewer_partitions(self, table: LiveTable) -> Candidate:
        last = list(table.partitions)[-1]
        return Candidate(
            f"ALTER TABLE `{table.name}` COALESCE PARTITION 1", lambda: table.partitions.pop(last) and None
        )

    def _repartition(self, table: LiveTable) -> Candidate:
        made = table.copy(table.name)
        if table.method and self._random.random() < 0.6:
            return self._unpartitioned(table)
        made.method, made.cut = self._random.choice(("HASH", "KEY")), "(`rn`)"
        return Candidate(f"ALTER TABLE `{table.name}` {self._partition_by(made)}", lambda: self._keep(made))

    def _unpartitioned(self, table: LiveTable) -> Candidate:
        made = table.copy(table.name)
        made.method, made.partitions = "", {}
        return Candidate(f"ALTER TABLE `{table.name}` REMOVE PARTITIONING", lambda: self._keep(made))

    def _exchange(self, table: LiveTable) -> Candidate:
        plain = [name for name, other in self.tables.items() if not other.method and other.types == table.types]
        copies = [other for other in self.tables.values() if other is not table and other.cut == table.cut]
        if not plain and copies:
            return self._unpartitioned(copies[0])
        if not plain:
            made = table.copy(self._new_name())
            return Candidate(f"CREATE TABLE `{made.name}` LIKE `{table.name}`", lambda: self._keep(made))
        [name, *_] = self._some(table)
        other = self._random.choice(plain)
        check = self._random.choice(("", " WITHOUT VALIDATION"))
        return Candidate(
            f"ALTER TABLE `{table.name}` EXCHANGE PARTITION `{name}` WITH TABLE `{other}`{check}", lambda: None
        )


def bounds_of(random: Random, literals: dict[str, list[str]], method: str) -> list[list[str]]:
    """Of each partition its upper bound, or its values; often in an order that the server takes."""
    if method == "RANGE":
        bounds = [",".join(random.choice(of) for of in literals.values()) for _ in range(random.randint(1, 4))]
        bounds = sorted(dict.fromkeys(bounds), key=_order)
        return [[text] for text in (*bounds, *random.choice(((), (",".join(["MAXVALUE"] * len(literals)),))))]
    rows = list({tuple(random.choice((*of, "NULL")) for of in literals.values()): None for _ in range(8)})
    texts = [row[0] if len(row) == 1 else f"({','.join(row)})" for row in rows]
    cuts = sorted(random.sample(range(1, len(texts)), min(2, len(texts) - 1)))
    return [texts[a:b] for a, b in zip([0, *cuts], [*cuts, len(texts)], strict=True)] + random.choice(([], [], [[""]]))


def _order(text: str) -> tuple[float, str]:
    try:
        return float(text), ""
    except ValueError:
        return 0.0, text.lower()


def _listed(names: list[str]) -> str:
    return ",".join(f"`{name}`" for name in names)
