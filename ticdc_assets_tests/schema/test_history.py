"""The fold of statements and schemas into lineages: names, versions, stops, and what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.protocols.storage_schema import parse_schema_file
from ticdc_assets.schema import ddl
from ticdc_assets.schema.evolution import create
from ticdc_assets.schema.history import Known, fold
from ticdc_assets.schema.lineage import History
from ticdc_assets.schema.model import Column, Default, Index, Kind, MySqlType, TableSchema
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.sources.storage_bucket import ID, NAME, schema_document


def event(ts: int, table: str, query: str, schema: str = "shop", after: TableSchema | None = None) -> DdlEvent:
    return DdlEvent(ts, schema, table, query, after=after, where=f"at {ts}")


def table(name: str, *columns: str, key: tuple[str, ...] = ()) -> TableSchema:
    made = tuple(Column(c, MySqlType(Kind.INT), nullable=c not in key) for c in columns)
    return TableSchema("shop", name, made, (Index("PRIMARY", key, unique=True, primary=True),) if key else ())


GUESSED = replace(table("t", "id", key=("id",)), inferred=True)
NAMED = Known(key_of=lambda _schema, table: ("id",) if table == "t" else None)


def ids(history: History) -> list[str]:
    return [lineage.id for lineage in history.lineages]


@pytest.mark.parametrize("workload", workloads("canal-json-tidb", "seed*"), ids=lambda w: w.name)
def test_every_version_of_every_table_is_what_the_log_says(workload: Workload):
    """Statement texts alone lead to the columns and keys that the log tells after each of them."""
    told = [e for e in workload.events if e["kind"] in ("ddl", "exists") and not e.get("replay")]
    events = [
        DdlEvent(e["commit_ts"], e.get("new_schema", e["schema"]), e.get("new_table", e["table"]), e["query"])
        for e in told
    ]
    history = fold(events)

    for e in told:
        if "create_after" not in e:
            continue
        (statement,) = ddl.parse(e["create_after"], e["schema"])
        assert isinstance(statement, ddl.CreateTable)
        wanted = create(statement).table
        found = history.as_of(e["schema"], e["table"], e["commit_ts"] + 1)
        assert found is not None
        assert [c.name for c in found[1].table.stored_columns] == [c.name for c in wanted.stored_columns]
        assert found[1].table.key == wanted.key


def test_redelivered_statements_count_once():
    statement = event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)")

    assert fold([statement, replace(statement)]) == fold([statement])


def test_a_table_of_a_name_that_was_dropped_starts_afresh():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(20, "t", "DROP TABLE `shop`.`t`"),
        event(30, "t", "CREATE TABLE `t` (`code` VARCHAR(5) PRIMARY KEY)"),
    ])  # fmt: skip

    assert ids(history) == ["shop.t@10", "shop.t@30"]
    assert history.lineages[0].dropped_ts == 20
    assert history.as_of("shop", "t", 25) is None
    assert history.as_of("shop", "T", 31) == (history.lineages[1], history.lineages[1].versions[0])


@pytest.mark.parametrize("third", ["RENAME TABLE `tmp` TO `b`", "RENAME TABLE `a` TO `b`"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_swap_in_one_statement_swaps_whatever_its_order_and_text(third: str, order: tuple[int, ...]):
    """Storage does not tell the order, and TiCDC writes the third text with the name from before the statement."""
    parts = [
        event(30, "tmp", "RENAME TABLE `a` TO `tmp`"),
        event(30, "a", "RENAME TABLE `b` TO `a`"),
        event(30, "b", third),
    ]
    births = [event(10, n, f"CREATE TABLE `{n}` (`id` INT PRIMARY KEY)") for n in ("a", "b")]

    history = fold([*births, *(parts[n] for n in order)])

    assert {lineage.id: lineage.name for lineage in history.lineages} == {
        "shop.a@10": ("shop", "b"),
        "shop.b@10": ("shop", "a"),
    }


def test_a_swap_whose_name_between_was_not_told_swaps():
    births = [event(10, n, f"CREATE TABLE `{n}` (`id` INT PRIMARY KEY)") for n in ("a", "b")]

    history = fold([*births, event(30, "a", "RENAME TABLE `b` TO `a`"), event(30, "b", "RENAME TABLE `a` TO `b`")])

    assert {lineage.id: lineage.name for lineage in history.lineages} == {
        "shop.a@10": ("shop", "b"),
        "shop.b@10": ("shop", "a"),
    }


@pytest.mark.parametrize("source", ["a", "unknown"])
def test_a_table_whose_name_another_takes_by_a_rename_is_dropped(source: str):
    """As with `ignore-event = ["drop table"]`: the stream does not tell that the name was free."""
    births = [event(10, n, f"CREATE TABLE `{n}` (`id` INT PRIMARY KEY)") for n in ("a", "b")]

    history = fold([*births, event(30, "b", f"RENAME TABLE `{source}` TO `b`", after=table("b", "id", key=("id",)))])

    assert history.by_id()["shop.b@10"].dropped_ts == 30
    taken = history.as_of("shop", "b", 31)
    assert taken is not None
    assert taken[0].id == ("shop.a@10" if source == "a" else "shop.b@30")


def test_a_rename_that_is_told_twice_drops_nothing():
    history = fold([
        event(10, "a", "CREATE TABLE `a` (`id` INT PRIMARY KEY)"),
        event(30, "b", "RENAME TABLE `a` TO `b`"),
        event(30, "b", "RENAME TABLE `shop`.`a` TO `b`"),
    ])  # fmt: skip

    assert [(lineage.name, lineage.dropped_ts) for lineage in history.lineages] == [(("shop", "b"), None)]


def test_a_statement_that_cannot_be_read_stops_its_table_and_no_other():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(10, "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY)"),
        event(20, "t", "ALTER TABLE `t` FROBNICATE COLUMN `id`"),
        event(30, "u", "ALTER TABLE `u` ADD COLUMN `n` INT"),
    ])  # fmt: skip

    stopped, free = history.lineages
    assert stopped.stop is not None
    assert (stopped.stop.ts, free.stop, len(free.versions)) == (20, None, 2)
    assert "at 20" in stopped.stop.reason


UNREADABLE = "CREATE TABLE `t` (`id` INT PRIMARY KEY) FROBNICATED = 1"


@pytest.mark.parametrize("query", [UNREADABLE, "ALTER TABLE `t` FROBNICATE", "CREATE TABLE `t` LIKE `unknown`"])
def test_a_table_that_a_statement_nobody_could_read_made_or_changed_is_stopped_when_its_rows_come(query: str):
    (lineage,) = fold([event(10, "t", query), event(20, "t", "", after=GUESSED)]).lineages

    assert lineage.stop is not None
    assert lineage.stop.ts == 10


@pytest.mark.parametrize(
    "between",
    [
        [event(15, "t", "DROP TABLE `shop`.`t`")],
        [event(15, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)")],
        [event(15, "", "DROP DATABASE `shop`")],
        [event(15, "u", "RENAME TABLE `t` TO `u`")],
    ],
    ids=lambda told: told[0].query,
)
def test_a_name_is_free_again_when_the_table_that_nobody_could_read_has_left_it(between: list[DdlEvent]):
    history = fold([event(10, "t", UNREADABLE), *between, event(20, "t", "", after=GUESSED)])

    assert [(lineage.name, lineage.stop) for lineage in history.lineages] == [(("shop", "t"), None)]


def test_a_table_that_nobody_could_read_is_stopped_under_its_next_name_too():
    history = fold([
        event(10, "t", UNREADABLE),
        event(15, "u", "RENAME TABLE `t` TO `u`"),
        event(20, "u", "", after=replace(GUESSED, name="u")),
    ])  # fmt: skip

    assert [lineage.stop and lineage.stop.ts for lineage in history.lineages] == [10]


@pytest.mark.parametrize("query", ["RECOVER TABLE `t`", "FLASHBACK TABLE `t`", "RECOVER TABLE BY JOB 1"])
@pytest.mark.parametrize("told", [None, table("t", "id", key=("id",))], ids=["text alone", "columns told"])
@pytest.mark.parametrize("described", [Known(), Known({("shop", "t"): table("t", "id", key=("id",))})])
def test_a_table_whose_rows_are_brought_back_unseen_is_stopped(query: str, told: TableSchema | None, described: Known):
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)", after=told),
        event(20, "t", "DROP TABLE `shop`.`t`", after=told),
        event(30, "t", query, after=told),
    ], described)  # fmt: skip

    assert [(x.dropped_ts, x.stop and x.stop.ts) for x in history.lineages] == [(20, None), (None, 30)]


def test_a_truncated_table_that_is_brought_back_under_another_name_is_stopped_before_it_has_a_row():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(20, "t", "TRUNCATE TABLE `t`"),
        event(30, "u", "FLASHBACK TABLE `t` TO `u`"),
    ])  # fmt: skip

    assert [(x.name[1], x.stop and x.stop.ts) for x in history.lineages] == [("t", None), ("u", 30)]


def test_columns_other_than_the_statements_lead_to_stop_the_table():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(20, "t", "ALTER TABLE `t` ADD COLUMN `n` INT", after=table("t", "id", "m", key=("id",))),
    ])  # fmt: skip

    assert history.lineages[0].stop is not None
    assert "(id, m)" in history.lineages[0].stop.reason


INDEXED = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`name` VARCHAR(200),INDEX `i`((LOWER(`name`))))"
PLAIN = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`name` VARCHAR(200))"
ADDED = "ALTER TABLE `t` ADD INDEX `i`((LOWER(`name`)))"


@pytest.mark.parametrize("queries", [[INDEXED], [PLAIN, ADDED], [""]])
def test_an_index_over_an_expression_is_no_column_though_schema_files_list_one_for_it(queries: list[str]):
    hidden = {"ColumnName": "_V$_i_0", "ColumnType": "VARCHAR", "ColumnPrecision": "200"}
    files = [
        schema_document("shop", "t", ts, [ID, NAME] if query == PLAIN else [ID, NAME, hidden], query)
        for ts, query in enumerate(queries, start=1)
    ]

    (lineage,) = fold(parse_schema_file(file, "here").to_ddl_event() for file in files).lineages

    assert lineage.stop is None
    assert [c.name for c in lineage.newest.stored_columns] == ["id", "name"]


def test_an_exchanged_partition_stops_both_tables():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY) PARTITION BY RANGE (`id`) "
                       "(PARTITION `p0` VALUES LESS THAN (10))"),
        event(10, "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY)"),
        event(20, "t", "ALTER TABLE `t` EXCHANGE PARTITION `p0` WITH TABLE `u`"),
    ])  # fmt: skip

    assert [lineage.stop.ts for lineage in history.lineages if lineage.stop] == [20, 20]


def test_a_dropped_database_drops_its_tables():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"),
        event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY)", schema="other"),
        event(20, "", "DROP DATABASE `shop`"),
    ])  # fmt: skip

    assert [lineage.dropped_ts for lineage in history.lineages] == [20, None]


def test_a_table_older_than_the_stream_says_what_is_not_known_of_it():
    told = TableSchema("shop", "t", (Column("e", MySqlType(Kind.ENUM)), Column("id", MySqlType(Kind.INT))))

    history = fold([event(5, "t", "", after=told)])

    assert any("no key is known" in mark for mark in history.lineages[0].marks)
    assert any("labels of e" in mark for mark in history.lineages[0].marks)


def test_a_key_that_the_user_names_is_the_key():
    history = fold([event(5, "t", "", after=table("t", "id", "n"))], Known(key_of=lambda _schema, _table: ("id",)))

    assert history.lineages[0].newest.key == ("id",)
    assert not any("no key" in mark for mark in history.lineages[0].marks)


@pytest.mark.parametrize(
    "query",
    [
        "ALTER TABLE `t` ADD PRIMARY KEY(`id`) /*T![clustered_index] NONCLUSTERED */",
        "ALTER TABLE `t` ADD PRIMARY KEY(`n`)",
        "ALTER TABLE `t` ADD UNIQUE INDEX `u`(`n`)",
        "ALTER TABLE `t` DROP PRIMARY KEY",
    ],
)
def test_a_key_that_the_user_names_stays_the_key_whatever_statements_do_to_others(query: str):
    primary = ",PRIMARY KEY(`n`)" if "DROP" in query else ""

    (lineage,) = fold([
        event(10, "t", f"CREATE TABLE `t` (`id` INT NOT NULL,`n` INT NOT NULL{primary})"),
        event(20, "t", query),
    ], NAMED).lineages  # fmt: skip

    assert (lineage.stop, lineage.newest.key) == (None, ("id",))
    assert [v.effects for v in lineage.versions] == [()]


def test_a_key_that_the_user_names_follows_its_column_to_another_name():
    (lineage,) = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT,`n` INT)"),
        event(20, "t", "ALTER TABLE `t` RENAME COLUMN `id` TO `code`"),
    ], NAMED).lineages  # fmt: skip

    assert lineage.newest.key == ("code",)


def test_a_table_made_like_one_whose_key_the_user_names_has_only_the_key_it_was_made_with():
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`id` INT,`n` INT NOT NULL UNIQUE)"),
        event(20, "u", "CREATE TABLE `u` LIKE `t`"),
        event(30, "v", "CREATE TABLE `v` (`id` INT,`n` INT)"),
        event(40, "w", "CREATE TABLE `w` LIKE `v`"),
    ], NAMED)  # fmt: skip

    assert [lineage.newest.key for lineage in history.lineages] == [("id",), ("n",), (), ()]


def test_a_table_whose_key_the_user_names_stays_the_same_when_its_rows_tell_another_column():
    """The Avro protocol: a schema without a statement."""
    told = [replace(table("t", *columns), inferred=True) for columns in (("id", "n"), ("id", "n", "m"))]

    (lineage,) = fold([event(ts, "t", "", after=after) for ts, after in enumerate(told)], NAMED).lineages

    assert ([c.name for c in lineage.newest.stored_columns], lineage.newest.key) == (["id", "n", "m"], ("id",))


def test_a_table_that_was_shown_under_its_new_name_first_bore_the_old_one_until_its_rename():
    shown = replace(event(10, "new", "", after=table("new", "id", key=("id",))), version=10)
    rename = replace(event(50, "new", "RENAME TABLE `shop`.`old` TO `shop`.`new`"), version=10)

    [lineage] = fold([shown, rename]).lineages

    assert lineage.id == "shop.new@10"
    assert [(t.table, t.until_ts) for t in lineage.tenures] == [("old", 50), ("new", None)]


def test_a_table_that_the_user_describes_takes_the_statements_before_its_rename():
    described = Known({("shop", "t"): table("t", "id", key=("id",))})

    history = fold([
        event(10, "t", "ALTER TABLE `t` ADD COLUMN `n` INT"),
        event(20, "u", "RENAME TABLE `t` TO `u`"),
        event(30, "u", "ALTER TABLE `u` DROP COLUMN `n`"),
    ], described)  # fmt: skip

    (lineage,) = history.lineages
    assert lineage.name == ("shop", "u")
    assert lineage.stop is None
    assert [[c.name for c in v.table.stored_columns] for v in lineage.versions] == [["id"], ["id", "n"], ["id"]]


def test_statements_on_a_table_that_was_dropped_are_not_of_its_successor():
    described = Known({("shop", "t"): table("t", "id", key=("id",))})

    history = fold([
        event(10, "t", "ALTER TABLE `t` ADD COLUMN `n` INT"),
        event(20, "t", "DROP TABLE `t`"),
        event(30, "v", "RENAME TABLE `t` TO `v`"),
    ], described)  # fmt: skip

    assert [[c.name for c in lineage.newest.stored_columns] for lineage in history.lineages] == [["id"]]


def test_a_table_that_is_older_than_the_stream_and_brought_back_is_stopped_when_its_rows_come():
    history = fold([
        event(20, "t", "DROP TABLE `shop`.`t`"),
        event(30, "t", "RECOVER TABLE `t`"),
        event(40, "t", "", after=GUESSED),
    ])  # fmt: skip

    assert [lineage.stop and lineage.stop.ts for lineage in history.lineages] == [30]


COPIES = [
    [event(15, "u", "CREATE TABLE `u` LIKE `t`")],
    [event(15, "u", "RENAME TABLE `t` TO `u`")],
]


@pytest.mark.parametrize("copies", COPIES)
def test_a_copied_or_renamed_table_keeps_how_its_text_compares(copies: list[DdlEvent]):
    """By code points `Z` is below `m`, by this collation it is not: no row may be taken for one of `p`."""
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`v` VARCHAR(10) PRIMARY KEY) DEFAULT COLLATE = UTF8MB4_GENERAL_CI "
                       "PARTITION BY RANGE COLUMNS (`v`) (PARTITION `p` VALUES LESS THAN (_UTF8MB4'm'))"),
        *copies,
        event(20, "u", "ALTER TABLE `u` TRUNCATE PARTITION `p`"),
    ])  # fmt: skip

    stop = history.lineages[-1].stop
    assert stop is not None
    assert "binary collation" in stop.reason


@pytest.mark.parametrize("option", ["CHARACTER SET = BINARY", "COLLATE = BINARY"])
@pytest.mark.parametrize("copies", COPIES)
def test_text_added_to_a_table_of_binary_text_is_binary(option: str, copies: list[DdlEvent]):
    history = fold([
        event(10, "t", f"CREATE TABLE `t` (`id` INT PRIMARY KEY) DEFAULT {option}"),
        *copies,
        event(20, "u", "ALTER TABLE `u` ADD COLUMN `w` VARCHAR(10) DEFAULT _UTF8MB4'é'"),
        event(30, "u", "ALTER TABLE `u` ADD COLUMN `x` CHAR(2) DEFAULT x'ff'"),
    ])  # fmt: skip

    [_, w, x] = history.lineages[-1].newest.columns
    assert (w.type.kind, x.type.kind) == (Kind.VARBINARY, Kind.BINARY)
    assert (w.default, x.default) == (Default("é".encode()), Default(b"\xff"))
    fills = [effect.value for version in history.lineages[-1].versions for effect in version.effects]
    assert fills == [Default("é".encode()), Default(b"\xff\0")]


DUMPED = """CREATE TABLE `t` (
  `v` varchar(10) NOT NULL,
  PRIMARY KEY (`v`) /*T![clustered_index] CLUSTERED */
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=%s
PARTITION BY RANGE COLUMNS(`v`)
(PARTITION `p` VALUES LESS THAN ('m'))"""


@pytest.mark.parametrize(("collation", "stops"), [("utf8mb4_general_ci", True), ("utf8mb4_bin", False)])
def test_a_table_that_the_user_describes_compares_as_described(collation: str, stops: bool):
    (statement,) = ddl.parse(DUMPED % collation, "shop", restored=False)
    described = create(statement).table

    history = fold([
        event(10, "t", "", after=described),
        event(20, "t", "ALTER TABLE `t` TRUNCATE PARTITION `p`"),
    ], Known({("shop", "t"): described}))  # fmt: skip

    assert (history.lineages[0].stop is not None) == stops


@pytest.mark.parametrize(
    "database",
    ["CREATE DATABASE `shop` COLLATE = UTF8MB4_GENERAL_CI", "ALTER DATABASE `shop` CHARACTER SET = GBK"],
)
def test_a_table_that_names_no_collation_has_that_of_its_database(database: str):
    cut = "PARTITION BY RANGE COLUMNS (`v`) (PARTITION `p` VALUES LESS THAN (_UTF8MB4'm'))"
    own = "DEFAULT COLLATE = UTF8MB4_BIN "

    history = fold([
        event(1, "", "CREATE DATABASE `shop`"),
        event(2, "", database),
        event(10, "t", f"CREATE TABLE `t` (`v` VARCHAR(10) PRIMARY KEY) {cut}"),
        event(10, "u", f"CREATE TABLE `u` (`v` VARCHAR(10) PRIMARY KEY) {own}{cut}"),
        event(20, "t", "ALTER TABLE `t` TRUNCATE PARTITION `p`"),
        event(20, "u", "ALTER TABLE `u` TRUNCATE PARTITION `p`"),
    ])  # fmt: skip

    assert [lineage.stop is not None for lineage in history.lineages] == [True, False]


def test_text_whose_collation_no_statement_told_tells_no_rows():
    told = TableSchema("shop", "t", (Column("v", MySqlType(Kind.VARCHAR, 10), nullable=False),))
    cut = "PARTITION BY RANGE COLUMNS (`v`) (PARTITION `p` VALUES LESS THAN (_UTF8MB4'm'))"

    history = fold([
        event(10, "t", "", after=told),
        event(20, "t", f"ALTER TABLE `t` {cut}"),
        event(30, "t", "ALTER TABLE `t` TRUNCATE PARTITION `p`"),
    ])  # fmt: skip

    assert history.lineages[0].stop is not None
    assert history.lineages[0].stop.ts == 30


@pytest.mark.parametrize(
    ("charset", "size", "kind"),
    [
        ("UTF8", 80, Kind.TINYTEXT),
        ("LATIN1", 200, Kind.TINYTEXT),
        ("BINARY", 200, Kind.TINYBLOB),
        ("GBK", 100, Kind.TINYTEXT),
        ("UTF8MB4", 80, Kind.TEXT),
    ],
)
def test_a_sized_text_is_as_large_as_its_tables_character_set_makes_it(charset: str, size: int, kind: Kind):
    columns = (Column("id", MySqlType(Kind.INT), nullable=False), Column("v", MySqlType(kind)))
    told = TableSchema("shop", "t", columns, (Index("PRIMARY", ("id",), unique=True, primary=True),))
    create = f"CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` TEXT({size})) DEFAULT CHARACTER SET = {charset}"

    history = fold([event(10, "t", create, after=told)])

    assert history.lineages[0].stop is None
    assert history.lineages[0].newest.columns == tuple(replace(c, uid=u) for u, c in enumerate(columns, start=1))


def test_a_sized_text_fits_what_is_told_where_only_its_database_names_the_character_set():
    columns = (Column("id", MySqlType(Kind.INT), nullable=False), Column("v", MySqlType(Kind.TINYTEXT)))
    told = TableSchema("shop", "t", columns, (Index("PRIMARY", ("id",), unique=True, primary=True),))

    history = fold([event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` TEXT(80))", after=told)])

    assert history.lineages[0].stop is None
