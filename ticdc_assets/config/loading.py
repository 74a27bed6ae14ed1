"""From the file and the environment to a `Config`. All problems of a file are reported at once; nothing is guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from ticdc_assets.config.changefeed import read_changefeed
from ticdc_assets.config.files import below, text_of
from ticdc_assets.config.model import (
    CATALOG_TYPES,
    PORTABLE_CATALOG_TYPES,
    CatalogConfig,
    Changefeed,
    Config,
    SparkConfig,
)
from ticdc_assets.config.reading import NAME, Problems, Section, nearest, parse_yaml, shown
from ticdc_assets.config.sink import Protocol
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import control_namespace

CONFIG_VARIABLE: Final = "TICDC_ASSETS_CONFIG"


def load(path: Path | None, environ: Mapping[str, str]) -> Config:
    """The config at `path`, else where TICDC_ASSETS_CONFIG points, else the packaged sample.

    Raises ConfigError with everything that is wrong in it; no credential is in the text.
    """
    named = environ.get(CONFIG_VARIABLE)
    if path is None and not named:
        return _read(_sample(), environ, lake=Path.cwd())
    chosen = (path if path is not None else Path(str(named))).expanduser().absolute()
    return _read(chosen, environ, lake=chosen.parent)


def _sample() -> Path:
    return Path(str(files("ticdc_assets"))) / "sample" / "changefeeds.yaml"


def _read(path: Path, environ: Mapping[str, str], lake: Path) -> Config:
    problems = Problems(str(path))
    text = text_of(path, "Give --config, or set TICDC_ASSETS_CONFIG.")
    try:
        values = parse_yaml(text)
    except ConfigError as error:
        problems.take(error)
        values = None
    problems.raise_if_any()
    root = Section(values or {}, "", problems, environ)
    config = _config(root, path, lake)
    problems.raise_if_any()
    return config


def _config(root: Section, path: Path, lake: Path) -> Config:
    catalog = _catalog(root.section("catalog"), path.parent, lake)
    spark = _spark(root.section("spark"))
    feeds = root.section("changefeeds")
    portable = catalog.type in PORTABLE_CATALOG_TYPES
    changefeeds = [read_changefeed(feeds, name, path.parent, portable) for name in feeds]
    if not len(feeds):
        root.problem("changefeeds", "at least one changefeed", "none", "Describe one: changefeeds: {name: {...}}.")
    root.close()
    complete = tuple(c for c in changefeeds if c is not None)
    _check_together(feeds, complete)
    return Config(path, catalog, spark, complete)


# ---- catalog and Spark -----------------------------------------------------------------------------------------------


def _catalog(section: Section, base: Path, lake: Path) -> CatalogConfig:
    kind = section.choice("type", CATALOG_TYPES, "sql")
    name = section.text("name", "lake") or "lake"
    if not NAME.fullmatch(name):
        section.problem("name", "letters, _ and, after the first, digits", shown(name), "Rename the catalog.")
    uri, warehouse = section.text("uri"), section.text("warehouse")
    if kind == "sql":
        uri = _sqlite_below(base, uri) if uri else f"sqlite:///{lake / 'lake' / 'catalog.db'}"
        warehouse = warehouse or str(lake / "lake" / "warehouse")
    if kind in {"rest", "hive"} and not uri and not section.problems.found:
        section.problem("uri", "the catalog's address", "none", f"Add uri: for a {kind} catalog.")
    properties = section.settings("properties")
    section.close()
    return CatalogConfig(name, kind, uri, below(base, warehouse) if warehouse else None, properties)


def _sqlite_below(base: Path, uri: str) -> str:
    prefix, found, path = uri.partition(":///")
    if not found or not prefix.startswith("sqlite") or not path or path == ":memory:":
        return uri
    return f"{prefix}:///{base / path}"


def _spark(section: Section) -> SparkConfig:
    master = section.text("master") or SparkConfig().master
    if master.startswith("sc://"):
        section.problem("master", *_NO_CONNECT)
    if section.raw("remote") is not None:
        section.problem("remote", *_NO_CONNECT)
    conf = section.settings("conf")
    section.close()
    return SparkConfig(master, conf)


_NO_CONNECT: Final = (
    "the master of a Spark with a JVM beside this process",
    "Spark Connect",
    "Mirrors are merged through the driver's own JVM: name the cluster in master:, such as spark://host:7077.",
)


# ---- changefeeds together --------------------------------------------------------------------------------------------


def _check_together(feeds: Section, changefeeds: Sequence[Changefeed]) -> None:
    by_name = {changefeed.name: changefeed for changefeed in changefeeds}
    control: dict[tuple[str, ...], str] = {}
    for changefeed in changefeeds:
        _check_ddl_from(feeds, changefeed, by_name)
        place = tuple(part.lower() for part in control_namespace(changefeed.target, changefeed.name))
        other = control.setdefault(place, changefeed.name)
        if other != changefeed.name:
            found = f"that of {other}"
            todo = "Put {changefeed} into target.control, and let names differ in more than case."
            feeds.problem(changefeed.name, "a control namespace of its own", found, todo)


def _check_ddl_from(feeds: Section, changefeed: Changefeed, by_name: Mapping[str, Changefeed]) -> None:
    wanted = changefeed.ddl_from
    if wanted is None:
        return
    others = [name for name in feeds if name != changefeed.name]
    place = f"{changefeed.name}.ddl_from"
    if wanted not in others:
        meant = nearest(wanted, others)
        todo = f"Did you mean {meant}?" if meant else "Name a changefeed that carries DDL."
        feeds.problem(place, "the name of another changefeed", shown(wanted), todo)
    elif wanted in by_name and by_name[wanted].sink.protocol is Protocol.AVRO:
        feeds.problem(place, "a changefeed that carries DDL", "one of the Avro protocol", "Name another.")
    elif changefeed.sink.protocol is not Protocol.AVRO:
        found, todo = f"one of {changefeed.sink.protocol}", "Remove it: the stream tells its own statements."
        feeds.problem(place, "a changefeed of the Avro protocol to give it to", found, todo)
    elif not changefeed.sink.has_commit_ts:
        todo = "Statements and rows cannot be put in one order: give cdc enable-tidb-extension=true."
        feeds.problem(place, "rows with a commit_ts", "an Avro changefeed without the TiDB extension", todo)
