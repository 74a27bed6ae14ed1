"""Reads the file and the environment into a `Config`. All problems of a file are reported at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Final

from ticdc_assets.config.catalog import read_catalog
from ticdc_assets.config.changefeed import read_changefeed
from ticdc_assets.config.files import text_of
from ticdc_assets.config.model import Changefeed, Config, SparkConfig
from ticdc_assets.config.object_store import ObjectStore, read_object_store
from ticdc_assets.config.reading import Problems, Section, nearest, parse_yaml, shown
from ticdc_assets.config.sink import Protocol
from ticdc_assets.config.source_model import KafkaSource, MessagesSource, StorageSource
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import control_namespace

CONFIG_VARIABLE: Final = "TICDC_ASSETS_CONFIG"
PACKAGED_SAMPLE: Final = Path(str(files("ticdc_assets"))) / "sample"


def load(
    path: Path | None, environ: Mapping[str, str], advice: str = f"Give --config, or set {CONFIG_VARIABLE}."
) -> Config:
    """The config at `path`, else at TICDC_ASSETS_CONFIG, else the packaged sample.

    Args:
        advice: how to name another file, for the error if this one cannot be read.

    Raises:
        ConfigError: the config is invalid; the message has all its faults and no credential.
    """
    named = environ.get(CONFIG_VARIABLE)
    if path is None and not named:
        return _read(PACKAGED_SAMPLE / "changefeeds.yaml", environ, Path.cwd(), advice)
    chosen = (path if path is not None else Path(str(named))).expanduser().absolute()
    return _read(chosen, environ, chosen.parent, advice)


def _read(path: Path, environ: Mapping[str, str], lake: Path, advice: str) -> Config:
    problems = Problems(str(path))
    text = text_of(path, advice)
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
    catalog = read_catalog(root.section("catalog"), path.parent, lake)
    store = read_object_store(root, catalog.warehouse)
    if store is not None:
        catalog = replace(catalog, store=store)
    spark = _spark(root.section("spark"))
    feeds = root.section("changefeeds")
    changefeeds = [read_changefeed(feeds, name, path.parent, catalog) for name in feeds]
    if not len(feeds):
        root.problem("changefeeds", "at least one changefeed", "none", "Describe one: changefeeds: {name: {...}}.")
    root.close()
    complete = tuple(_opened(c, store) for c in changefeeds if c is not None)
    _check_together(feeds, complete)
    return Config(path, catalog, spark, complete)


def _opened(changefeed: Changefeed, store: ObjectStore | None) -> Changefeed:
    """The changefeed, with the credentials and endpoint of the object store for its source and large messages."""
    if store is None:
        return changefeed
    source, large_rows = changefeed.source, changefeed.large_rows
    if isinstance(source, StorageSource):
        source = StorageSource(store.opens(source.storage))
    if large_rows.claim_check is not None:
        large_rows = replace(large_rows, claim_check=store.opens(large_rows.claim_check))
    return replace(changefeed, source=source, large_rows=large_rows)


# ---- Spark -----------------------------------------------------------------------------------------------------------


def _spark(section: Section) -> SparkConfig:
    master = section.text("master") or SparkConfig().master
    if master.startswith("sc://"):
        section.problem("master", *_NO_CONNECT)
    elif not _MASTER.fullmatch(master):
        advice = "Spark knows local, local[N], local[*], spark://host:port, yarn and k8s://https://host:port."
        section.problem("master", "the master of a Spark", shown(master), advice)
    if section.raw("remote") is not None:
        section.problem("remote", *_NO_CONNECT)
    conf = section.settings("conf")
    for name in conf:
        if not name.startswith(_SETTING):
            advice = "Spark takes no other settings, and would not tell."
            section.problem("conf", f"names that begin with {_SETTING}", shown(name), advice)
    if "spark.master" in conf:  # settings that depend on the master are chosen by the key
        section.problem("conf", "settings without spark.master", "spark.master", "Write it as master:, next to conf:.")
    if "spark.remote" in conf:
        section.problem("conf", *_NO_CONNECT)
    if conf.get(_CASE, "true").strip().lower() != "true":
        advice = "Remove it. Spark would take columns of a source for one, such as s and the long s."
        section.problem("conf", f"{_CASE}: true", shown(conf[_CASE]), advice)
    section.close()
    return SparkConfig(master, conf)


_SETTING: Final = "spark."
_CASE: Final = "spark.sql.caseSensitive"
_MASTER: Final = re.compile(
    r"local(\[([1-9]\d*|\*)(,\s*\d+)?\]|-cluster\[.*\])?|yarn|k8s://.+|spark://[^\s,:/]+:\d+(,[^\s,:/]+:\d+)*"
)
_NO_CONNECT: Final = (
    "the master of a Spark with a JVM on this machine",
    "Spark Connect",
    "Mirrors are merged through the driver's own JVM: name the cluster in master:, such as spark://host:7077.",
)


# ---- changefeeds together --------------------------------------------------------------------------------------------


def _check_together(feeds: Section, changefeeds: Sequence[Changefeed]) -> None:
    by_name = {changefeed.name: changefeed for changefeed in changefeeds}
    control: dict[tuple[str, ...], str] = {}
    for changefeed in changefeeds:
        _check_ddl_from(feeds, changefeed, by_name)
        _check_messages(feeds, changefeed, by_name)
        place = tuple(part.lower() for part in control_namespace(changefeed.target, changefeed.name))
        other = control.setdefault(place, changefeed.name)
        if other != changefeed.name:
            found = f"that of {other}"
            advice = "Put {changefeed} into target.control, and let names differ in more than case."
            feeds.problem(changefeed.name, "a control namespace of its own", found, advice)


def _check_messages(feeds: Section, changefeed: Changefeed, by_name: Mapping[str, Changefeed]) -> None:
    if not isinstance(changefeed.source, MessagesSource):
        return
    wanted, others = changefeed.source.changefeed, [name for name in feeds if name != changefeed.name]
    place = f"{changefeed.name}.source.messages"
    if wanted not in others:
        meant = nearest(wanted, others)
        advice = f"Did you mean {meant}?" if meant else "Name a changefeed that reads Kafka."
        feeds.problem(place, "the name of another changefeed", shown(wanted), advice)
    elif wanted in by_name and not isinstance(by_name[wanted].source, KafkaSource):
        feeds.problem(place, "a changefeed that reads Kafka", "one with another source", "Name another.")


def _check_ddl_from(feeds: Section, changefeed: Changefeed, by_name: Mapping[str, Changefeed]) -> None:
    wanted = changefeed.schemas.ddl_from
    if wanted is None:
        return
    others = [name for name in feeds if name != changefeed.name]
    place = f"{changefeed.name}.ddl_from"
    if wanted not in others:
        meant = nearest(wanted, others)
        advice = f"Did you mean {meant}?" if meant else "Name a changefeed that carries DDL."
        feeds.problem(place, "the name of another changefeed", shown(wanted), advice)
    elif wanted in by_name and by_name[wanted].sink.protocol == Protocol.AVRO:
        feeds.problem(place, "a changefeed that carries DDL", "one of the Avro protocol", "Name another.")
    elif changefeed.sink.protocol != Protocol.AVRO:
        found, advice = f"one of {changefeed.sink.protocol}", "Remove it: the stream carries its own statements."
        feeds.problem(place, "a changefeed of the Avro protocol to give it to", found, advice)
    elif not changefeed.sink.has_commit_ts:
        advice = "Nothing orders statements and rows: give cdc enable-tidb-extension=true."
        feeds.problem(place, "rows with a commit_ts", "an Avro changefeed without the TiDB extension", advice)
