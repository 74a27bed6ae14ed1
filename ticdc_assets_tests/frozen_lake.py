"""Lakes of every format in `corpus/lakes/`.

    python -m ticdc_assets_tests.frozen_lake

writes the files of today's format: `format_N.txt`, the columns of control tables and the properties of tables, and
`format_N.tar.xz`, a lake whose changefeeds have consumed the first half of their sources, with the sources. Run it on
the commit of a release; it needs Java and starts Kafka. Iceberg stores absolute paths, so a frozen lake is unpacked to
the folder in which it was made, `FOLDER`.
"""

from __future__ import annotations

import base64
import re
import shutil
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import yaml

import ticdc_assets
from ticdc_assets.cli import main as run_command
from ticdc_assets.config import load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing.land import land
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables import messages
from ticdc_assets.tables.catalog import open_catalog
from ticdc_assets.tables.control import records
from ticdc_assets.tables.iceberg.types import arrow_of
from ticdc_assets.tables.lake_format import FORMAT
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.fixtures import CORPUS, read_jsonl
from ticdc_assets_tests.services.kafka import KafkaServer
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

LAKES: Final = CORPUS / "lakes"
FOLDER: Final = Path("/tmp/ticdc_assets_frozen_lake")
"""The same on all machines."""
PIN: Final = "before-the-upgrade"
SETTINGS: Final = {"history": ["shop.users"], "views": "{schema}__recorded.{table}"}
READ: Final = {
    "sink_uri": "kafka://127.0.0.1:9092/oracle?protocol=canal-json&enable-tidb-extension=true",
    "target": {"mirror": "read__{schema}.{table}", "changelog": "read__{schema}__changes.{table}"},
}
_SAMPLE: Final = Path(ticdc_assets.__file__).parent / "sample"
_MESSAGES: Final = _SAMPLE / "canal_json" / "messages.jsonl"
EMAIL: Final = {"ColumnName": "email", "ColumnType": "VARCHAR", "ColumnPrecision": "200", "ColumnNullable": "true"}


def description() -> str:
    """What a release and a later one must understand alike: columns of control tables, and properties of tables."""
    found = {
        name.lower(): [f"{field.name}: {field.type}" for field in schema]
        for name, schema in vars(records).items()
        if isinstance(schema, pa.Schema)
    }
    found["messages"] = [f"{field.name}: {arrow_of(field.field_type)}" for field in messages._SCHEMA.fields]
    code = "".join(path.read_text() for path in Path(ticdc_assets.__file__).parent.rglob("*.py"))
    found["properties"] = sorted({*re.findall(r'"(ticdc\.[a-z.-]+)"', code)})
    return "".join(f"{name}\n" + "".join(f"  {line}\n" for line in lines) for name, lines in sorted(found.items()))


# -- the sources ------------------------------------------------------------------------------------------------------


def first_half(feed: Feed) -> None:
    """A table of each state: live, with a record in quarantine, dropped, held, and without a key."""
    for name in ("users", "orders", "gone", "stopped"):
        feed.table("shop", name).rows("shop", name, ("I", 1, "ann", 2), ("I", 2, "bob", 3), ("D", 1, "ann", 4))
    feed.table("shop", "events", keyless=True).rows("shop", "events", ("I", 1, "seen", 2))
    feed.rows("shop", "orders", ("I", 5, "ok", 5), ("X", 9, "not a record", 5))
    feed.statement("shop", "gone", "DROP TABLE `gone`", 5, type_=4)
    feed.statement("shop", "stopped", "ALTER TABLE `stopped` FROBNICATE `id`", 5, type_=5)
    feed.checkpoint(10)


def second_half(feed: Feed) -> None:
    """More rows, a new column, and a new table."""
    feed.rows("shop", "users", ("I", 3, "eve", 12), ("D", 2, "bob", 13), ("I", 2, "rob", 13))
    feed.statement("shop", "users", "ALTER TABLE `users` ADD COLUMN `email` VARCHAR(200)", 14, [ID, NAME, EMAIL], 5)
    feed.rows("shop", "orders", ("D", 5, "ok", 12), ("I", 6, "new", 15))
    feed.rows("shop", "events", ("I", 1, "seen", 12))
    feed.table("shop", "later", 12).rows("shop", "later", ("I", 1, "new", 13))
    feed.checkpoint(20)


# -- what is in a lake ------------------------------------------------------------------------------------------------


def contents(config_path: Path) -> dict[str, Any]:
    """What readers see of the changefeeds `shop` and `read`: the state of every table, and the rows of its tables."""
    config = load(config_path, {})
    catalog, found = open_catalog(config.catalog), {}
    for changefeed in ("shop", "read"):
        lake = Lake(config, config.changefeed(changefeed))
        record = lake.control.newest()
        for table in record.tables if record is not None else ():
            of_it = (table.mirror, table.changelog, table.history_table)
            rows = [_rows(catalog.load_table(tuple(name))) if name else None for name in of_it]
            codes = [note.code for note in table.notes]
            found[f"{changefeed}: {table.schema}.{table.table}"] = (table.state, codes, table.quarantined, *rows)
        found[f"{changefeed}: views"] = [(view.view, view.mirror) for view in lake.control.views()]
    return found


def _rows(table: Any) -> Counter[Any]:
    """Rows without the position in the source, which a topic and a capture count in their own ways. The columns are in
    the order of their names: a changelog has them in the order in which they came."""
    names = sorted(field.name for field in table.schema().fields if field.name != "_ticdc_seq")
    rows = table.scan(selected_fields=tuple(names)).to_arrow().to_pylist()
    return Counter(repr([(name, _plain(row[name])) for name in names]) for row in rows)


def _plain(cell: Any) -> Any:
    return sorted(cell.items()) if isinstance(cell, dict) else cell


# -- the making -------------------------------------------------------------------------------------------------------


def changefeeds(path: Path, **more: Any) -> None:
    """Add changefeeds to a config, and Spark's settings of the sample."""
    whole = yaml.safe_load(path.read_text())
    whole["changefeeds"] |= more
    whole["spark"] = yaml.safe_load((_SAMPLE / "changefeeds.yaml").read_text())["spark"]
    path.write_text(yaml.safe_dump(whole))


def captured() -> dict[str, Any]:
    """The changefeed `read` as it reads the messages of the sample itself."""
    return {**READ, "source": {"capture": str(_MESSAGES)}}


def make() -> None:
    """Write the files of today's format."""
    (LAKES / f"format_{FORMAT}.txt").write_text(description())
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    feed = Feed(FOLDER, **SETTINGS)
    first_half(feed)
    middle = _landed(feed)
    _run(feed, "run", "--changefeed", "shop")
    _run(feed, "run", "--changefeed", "read", "--until", str(middle))
    _run(feed, "snapshot", "--changefeed", "shop", "--at", str(ts(10)), "--pin", PIN)
    second_half(feed)
    shutil.rmtree(FOLDER / ".ticdc_assets", ignore_errors=True)
    with tarfile.open(LAKES / f"format_{FORMAT}.tar.xz", "w:xz", preset=9) as archive:
        archive.add(FOLDER, ".")


def _landed(feed: Feed) -> int:
    """Land the messages of the sample from a topic. Returns a TSO in their middle."""
    sent = [_sendable(line) for line in read_jsonl(_MESSAGES)]
    with tempfile.TemporaryDirectory() as folder:
        kafka = KafkaServer(Path(folder) / "kafka")
        kafka.start()
        try:
            kafka.make_topic("oracle", 1 + max(message["partition"] for message in sent))
            kafka.send(sent)
            topic = {**READ, "source": {"kafka": {"brokers": [kafka.brokers]}}, "target": {"mirror": "topic.{table}"}}
            changefeeds(feed.path, topic=topic, read={**READ, "source": {"messages": "topic"}})
            config = load(feed.path, {})
            lake = Lake(config, config.changefeed("topic"))
            land(lake, LocalWorkers())
        finally:
            kafka.stop()
    table = messages.load(lake.catalog, lake.control.namespace)
    assert table is not None
    found = sorted(stamp for stamp in table.scan().to_arrow().column("commit_ts").to_pylist() if stamp)
    return int(found[len(found) // 2])


def _run(feed: Feed, command: str, *arguments: str) -> None:
    code = run_command([command, "--config", str(feed.path), *arguments])
    print(command, *arguments, "->", code)


def _sendable(line: dict[str, Any]) -> dict[str, Any]:
    return line | {name: None if line[name] is None else base64.b64decode(line[name]) for name in ("key", "value")}


if __name__ == "__main__":
    make()
