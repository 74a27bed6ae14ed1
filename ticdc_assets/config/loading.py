"""Reads the file and the environment into a `Config`. All problems of a file are reported at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Final

from ticdc_assets.config.catalog import catalog_of
from ticdc_assets.config.changefeed import changefeed_of
from ticdc_assets.config.config_file import ConfigFile
from ticdc_assets.config.files import text_of
from ticdc_assets.config.model import Changefeed, Config, SparkConfig
from ticdc_assets.config.object_store import ObjectStore, object_store_of
from ticdc_assets.config.reading import Problems, Section, nearest, parse_yaml, shown
from ticdc_assets.config.sink import Protocol
from ticdc_assets.config.source_model import KafkaSource, MessagesSource, StorageSource
from ticdc_assets.config.validation import Context, validated
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import control_namespace

CONFIG_VARIABLE: Final = "TICDC_ASSETS_CONFIG"
SCHEMA: Final = Path(str(files("ticdc_assets"))) / "config" / "changefeeds.schema.json"
"""The JSON Schema of the file, for editors."""
PACKAGED_SAMPLE: Final = Path(str(files("ticdc_assets"))) / "sample"


def editor_line(folder: Path) -> str:
    """The first line of a config in this folder, by which editors find the JSON Schema and check what is typed.

    The path is relative where the installation is below the folder, as a virtual environment in a project is.
    """
    path = os.path.relpath(SCHEMA, folder) if SCHEMA.is_relative_to(folder.absolute()) else SCHEMA.as_uri()
    return f"# yaml-language-server: $schema={path}\n"


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
    root = Section(values or {}, "", problems)
    file = validated(ConfigFile, root, Context(environ, path.parent)) or ConfigFile()
    config = _config(file, root, path, lake)
    problems.raise_if_any()
    return config


def _config(file: ConfigFile, root: Section, path: Path, lake: Path) -> Config:
    catalog = catalog_of(file.catalog, root.below("catalog"), path.parent, lake)
    store = None
    if file.object_store is not None:
        store = object_store_of(file.object_store, root.below("object_store"), catalog.warehouse)
        catalog = replace(catalog, store=store)
    feeds = root.below("changefeeds")
    changefeeds = [changefeed_of(keys, feeds, name, path.parent, catalog) for name, keys in file.changefeeds.items()]
    if not len(feeds):
        root.problem("changefeeds", "at least one changefeed", "none", "Describe one: changefeeds: {name: {...}}.")
    complete = tuple(_opened(c, store) for c in changefeeds if c is not None)
    _check_together(feeds, complete)
    return Config(path, catalog, SparkConfig(file.spark.master, file.spark.conf), complete)


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
