"""A row with a column that its table has not, or without one that it has, stops its table there, in every protocol that
has statements; what the note advises lets the table go on, and no value is lost or made up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets.config import Config, load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.deliveries.avro_wire import Avro
from ticdc_assets_tests.deliveries.database import Column, Shape
from ticdc_assets_tests.deliveries.wires import CanalJson, Debezium, OpenProtocol, SimpleJson, Wire
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import SmallStream, UndatedCanalJson, shape, states
from ticdc_assets_tests.pipeline.stream.official_canal import Server, Table

B = Column("b", "INT")
A, A_WITH_B, OLD = shape("a"), shape("a", B), shape("old")
LEFT_OUT = {"sink": {"column-selectors": [{"matcher": ["s.a"], "columns": ["*", "!b"]}]}}
T = ("s", "a")
Images = dict[int, list[Any]]

WIRES: dict[str, Callable[[Path], Any]] = {
    "open-protocol": lambda _: OpenProtocol(),
    "canal-json": lambda _: CanalJson(),
    "canal-json without extension": lambda _: UndatedCanalJson(),
    "simple": lambda _: SimpleJson(),
    "debezium": lambda _: Debezium(),
    "avro with statements": lambda folder: Avro(folder, told=True),
}


class Stream(SmallStream):
    """A stream of the table `a`; rows 5 and 6 have the columns of `after`, which no statement says."""

    def __init__(self, folder: Path, wire: Wire, before: Shape, after: Shape) -> None:
        super().__init__(folder, wire)
        self.before, self.after = before, after

    def rows(self, tick: int, table: Shape, *numbers: int) -> None:
        for number in numbers:
            more = {"b": 70 + number} if "b" in table.names else {}
            self.put(tick + number, table, number, **more)

    def begin(self, is_created: bool = True) -> None:
        if is_created:
            self.create(0, self.before)
        self.rows(0, self.before, 1, 2, 3)
        self.watermark(3)

    def go_on(self) -> None:
        self.rows(0, self.after, 5, 6)
        self.watermark(20)

    def of_feed(self) -> FeedLake:
        registry = {"schema_registry": {"file": str(self.wire.registry)}} if isinstance(self.wire, Avro) else {}
        return self.lake(**registry)


def found(lake: FeedLake) -> Images:
    """By id, the values of `b` in all changes, "-" where their table had no such column."""
    images: Images = {}
    for change in lake.changes().elements():
        image = dict(change.new or ())
        images.setdefault(image["id"], []).append(image.get("b", "-"))
    return {number: sorted(values, key=str) for number, values in sorted(images.items())}


def b_of(table: Shape, *numbers: int, unsent: Any = "-") -> Images:
    return {number: [70 + number if "b" in table.names else unsent] for number in numbers}


# -- remedies ---------------------------------------------------------------------------------------------------------


def restored(stream: Stream) -> Images:
    action = "DROP COLUMN `b`" if stream.after is A else "ADD COLUMN `b` INT"
    stream.ddl(4, f"ALTER TABLE `a` {action}", stream.before, stream.after)
    return b_of(stream.before, 1, 2, 3) | b_of(stream.after, 5, 6)


def left_out(stream: Stream) -> Images:
    stream.config = LEFT_OUT
    return b_of(stream.before, 1, 2, 3) | b_of(stream.after, 5, 6, unsent=None)


def created_again(stream: Stream) -> Images:
    after = stream.after
    made = shape("new", *(B for _ in after.names[2:]))
    stream.create(30, made)
    stream.rows(30, made, 1, 2, 3, 5, 6)
    stream.rename(40, stream.before, OLD)
    stream.rename(40, made, after)
    stream.rows(40, after, 8)
    stream.drop(50, OLD)
    stream.watermark(60)
    old, new = b_of(stream.before, 1, 2, 3), b_of(after, 1, 2, 3, 5, 6, 8)
    return {n: sorted(old.get(n, []) + new[n], key=str) for n in new}


REMEDIES: list[tuple[Shape, Shape, str, Callable[[Stream], Images]]] = [
    (A_WITH_B, A, "if the source of the messages still has it, restore its message", restored),
    (A_WITH_B, A, "give its `column-selectors` in the configuration here", left_out),
    (A_WITH_B, A, "create the table again at the source", created_again),
    (A, A_WITH_B, "if the source of the messages still has it, restore its message", restored),
    (A, A_WITH_B, "create the table again at the source", created_again),
]


def of_remedy(value: Any) -> str | None:
    named = {A: "without b", A_WITH_B: "with b"}
    return named.get(value) if isinstance(value, Shape) else getattr(value, "__name__", "")


@pytest.mark.variants(10)
@pytest.mark.parametrize(("before", "after", "advice", "remedy"), REMEDIES, ids=of_remedy)
@pytest.mark.parametrize(("wire", "runs_between"), zip(WIRES.values(), cycle([False, True]), strict=False), ids=WIRES)
def test_the_rows_before_are_there_and_the_note_tells_how_to_go_on(
    wire: Any, before: Shape, after: Shape, advice: str, remedy: Any, runs_between: bool, tmp_path: Path
):
    stream = Stream(tmp_path, wire(tmp_path), before, after)
    stream.begin()
    if runs_between:
        stream.of_feed().publish()
    stream.go_on()
    lake = stream.of_feed()

    lake.publish()

    note = lake.records()[T].note
    assert states(lake) == {"a": "stopped"}
    assert ("found a row without 'b'" if after is A else "found 'b' in a row") in note
    assert advice in note
    assert found(lake) == b_of(before, 1, 2, 3)
    wanted = remedy(stream)
    lake = stream.of_feed()
    lake.publish()
    assert states(lake) == {"a": "live"} | ({"old": "dropped"} if remedy is created_again else {})
    assert found(lake) == wanted
    assert lake.publish() is None
    assert lake.complete_tso() > 0


@pytest.mark.variants(4)
@pytest.mark.parametrize("wire", [OpenProtocol(), CanalJson(), UndatedCanalJson(), Avro(Path(), told=True)],
                         ids=lambda wire: type(wire).__name__)  # fmt: skip
@pytest.mark.parametrize(("before", "after", "advice", "remedy"), REMEDIES[:3], ids=of_remedy)
def test_a_table_that_is_known_only_from_rows_goes_on_in_the_same_ways(
    wire: Any, before: Shape, after: Shape, advice: str, remedy: Any, tmp_path: Path
):
    stream = Stream(tmp_path, Avro(tmp_path, told=True) if isinstance(wire, Avro) else wire, before, after)
    stream.begin(is_created=False)
    stream.go_on()
    lake = stream.of_feed()

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert advice in lake.records()[T].note
    assert found(lake) == b_of(before, 1, 2, 3)
    wanted = remedy(stream)
    lake = stream.of_feed()
    lake.publish()
    assert set(states(lake).values()) <= {"live", "dropped"}
    assert found(lake) == wanted
    assert lake.publish() is None


def test_where_each_row_of_avro_brings_the_only_schema_a_column_that_it_lacks_is_dropped(tmp_path: Path):
    stream = Stream(tmp_path, Avro(tmp_path, told=False), A_WITH_B, A)
    stream.begin(is_created=False)
    stream.go_on()
    lake = stream.of_feed()

    lake.publish()

    assert states(lake) == {"a": "live"}
    assert found(lake) == b_of(A_WITH_B, 1, 2, 3) | b_of(A, 5, 6)


def test_a_column_that_rows_of_another_changefeed_lack_stops_no_table_that_takes_its_statements(tmp_path: Path):
    teller = Stream(tmp_path / "teller", CanalJson(), A_WITH_B, A)
    teller.begin()
    teller.go_on()
    stream = Stream(tmp_path / "rows", Avro(tmp_path, told=False), A_WITH_B, A_WITH_B)
    stream.begin(is_created=False)
    stream.go_on()
    config = with_statements_of(teller, stream)
    other, feed = (Lake(config, config.changefeed(name)) for name in ("ddl", "feed"))
    for _ in range(2):
        for each in (other, feed):
            run = run_of(each)
            if not (pending := run.scan()).is_empty:
                run.publish_changelogs(pending, LocalWorkers())

    newest = {each.changefeed.name: each.control.newest() for each in (other, feed)}

    assert {name: [t.state for t in record.tables] for name, record in newest.items() if record} == {
        "ddl": ["stopped"],
        "feed": ["live"],
    }


def with_statements_of(teller: Stream, stream: Stream) -> Config:
    """The config of a stream's changefeed that takes its statements from another one."""
    stream.of_feed()
    path = stream.folder / "lake" / "changefeeds.yaml"
    written = yaml.safe_load(path.read_text())
    written["changefeeds"]["feed"] |= {"ddl_from": "ddl", "sink_uri": stream.wire.sink_uri.partition("&avro-")[0]}
    target = {"mirror": "other_{schema}.{table}", "changelog": "other_{schema}__changes.{table}"}
    source = {"capture": str(teller.capture)}
    written["changefeeds"]["ddl"] = {"sink_uri": teller.wire.sink_uri, "source": source, "target": target}
    path.write_text(yaml.safe_dump(written))
    return load(path, {})


def test_a_virtual_column_is_not_lacking(tmp_path: Path):
    stream = Stream(tmp_path, CanalJson(), A, A)
    virtual = "ALTER TABLE `a` ADD COLUMN `b` INT GENERATED ALWAYS AS (`id`) VIRTUAL"
    stream.begin()
    stream.ddl(4, virtual, A)
    stream.go_on()
    lake = stream.of_feed()

    lake.publish()

    assert states(lake) == {"a": "live"}


# -- Alibaba's Canal --------------------------------------------------------------------------------------------------


def made_again(server: Server) -> None:
    columns = server.tables[T].columns
    server.create(("s", "new"), ", b varchar(20)" if "b" in columns else "")
    server.tables["s", "new"].columns = dict(columns)
    for number in (1, 2, 3, 5, 6):
        server.insert(("s", "new"), number)
    server.statement(T, "RENAME TABLE a TO old, new TO a", "RENAME")
    server.tables = {T: server.tables["s", "new"], ("s", "old"): server.tables[T]}
    server.insert(T, 8)
    server.drop(("s", "old"))


@pytest.mark.variants(2)
@pytest.mark.parametrize("is_created", [True, False])
@pytest.mark.parametrize("remedy", ["left out", "created again"])
@pytest.mark.parametrize("seconds", [0, 1])
def test_canal_of_a_server_that_sends_no_statement_goes_on_too(
    is_created: bool, remedy: str, seconds: int, tmp_path: Path
):
    server = Server(tmp_path)
    if is_created:
        server.create(T, ", b varchar(20)")
    server.tables[T] = Table({**Table().columns, "b": "varchar(20)"})
    for number in (1, 2, 3):
        server.insert(T, number, b="sent")
    server.lake().publish()
    server.second += seconds
    del server.tables[T].columns["b"]
    for number in (5, 6):
        server.tables[T].rows.pop(number, None)
        server.insert(T, number)
    lake = server.lake()

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert "found a row without 'b'" in lake.records()[T].note
    assert found(lake) == {key: ["sent"] for key in (1, 2, 3)}
    server.second += 1
    if remedy == "created again":
        made_again(server)
    lake = server.lake() if remedy == "created again" else server.lake(config=LEFT_OUT)
    lake.publish()
    assert states(lake) == {"a": "live"} | ({"old": "dropped"} if remedy == "created again" else {})
    more = [] if remedy == "left out" else ["-"]
    assert found(lake) == {
        **{key: [*more, "sent"] for key in (1, 2, 3)},
        **dict.fromkeys((5, 6), [None] if remedy == "left out" else ["-"]),
        **({} if remedy == "left out" else {8: ["-"]}),
    }
    assert lake.publish() is None


def test_columns_that_come_one_after_another_in_one_second_are_added_by_each_run(tmp_path: Path):
    server = Server(tmp_path)
    server.tables[T] = Table()
    lake = server.lake()
    for number, column in enumerate("xbc"):
        server.tables[T].columns[column] = "varchar(20)"
        server.insert(T, number, **dict.fromkeys(server.tables[T].columns.keys() - {"id", "name"}, f"{number}"))
        lake.publish()

    newest = lake.lake.control.newest()

    assert newest is not None
    assert [(record.state, record.table) for record in newest.tables] == [("live", "a")]
    rows = lake.lake.catalog.load_table(tuple(newest.tables[0].changelog or ())).scan().to_arrow().to_pylist()
    assert {row["id"]: [row[column] for column in "xbc"] for row in rows} == {
        0: ["0", None, None],
        1: ["1", "1", None],
        2: ["2", "2", "2"],
    }


def test_rows_without_columns_that_are_left_out_still_show_which_columns_are_new(tmp_path: Path):
    """Within one second only the columns of a row tell whether it is from before or after a new one."""
    server = Server(tmp_path)
    server.tables[T] = Table({**Table().columns, "b": "varchar(20)"})
    server.insert(T, 1, b="sent")
    del server.tables[T].columns["b"]
    server.second += 1
    server.insert(T, 2)
    server.tables[T].columns["c"] = "varchar(20)"
    server.insert(T, 3, c="new")
    lake = server.lake(config=LEFT_OUT)

    lake.publish()

    assert states(lake) == {"a": "live"}
    images = [dict(change.new or ()) for change in lake.changes().elements()]
    assert {image["id"]: (image.get("b"), image.get("c")) for image in images} == {
        1: ("sent", None),
        2: (None, None),
        3: (None, "new"),
    }
