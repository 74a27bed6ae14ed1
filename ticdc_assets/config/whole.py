"""The parts of a file together: the catalog with its store, and changefeeds that name each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ticdc_assets.config.catalog import catalog_of
from ticdc_assets.config.changefeed import changefeed_of
from ticdc_assets.config.config_file import ConfigFile
from ticdc_assets.config.model import Changefeed, Config, SparkConfig
from ticdc_assets.config.object_store import ObjectStore
from ticdc_assets.config.object_store_keys import object_store_of
from ticdc_assets.config.reading import Section, nearest, shown
from ticdc_assets.config.sink import Protocol
from ticdc_assets.config.source_model import KafkaSource, MessagesSource, StorageSource
from ticdc_assets.config.validation import Context, validated
from ticdc_assets.names import control_namespace


def config_of(root: Section, environ: Mapping[str, str], path: Path, lake: Path) -> Config:
    """The config of the whole file, whose faults are added to the problems of `root`. `lake` is the default folder."""
    file = validated(ConfigFile, root, Context(environ, path.parent)) or ConfigFile()
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
    section, wanted = feeds.below(changefeed.name, "source"), changefeed.source.changefeed
    if not _is_another(feeds, changefeed, section, "messages", wanted, "reads Kafka"):
        return
    if wanted in by_name and not isinstance(by_name[wanted].source, KafkaSource):
        section.problem("messages", "a changefeed that reads Kafka", "one with another source", "Name another.")


def _check_ddl_from(feeds: Section, changefeed: Changefeed, by_name: Mapping[str, Changefeed]) -> None:
    section, wanted = feeds.below(changefeed.name), changefeed.schemas.ddl_from
    if wanted is None or not _is_another(feeds, changefeed, section, "ddl_from", wanted, "carries DDL"):
        return
    if wanted in by_name and by_name[wanted].sink.protocol == Protocol.AVRO:
        section.problem("ddl_from", "a changefeed that carries DDL", "one of the Avro protocol", "Name another.")
    elif changefeed.sink.protocol != Protocol.AVRO:
        found, advice = f"one of {changefeed.sink.protocol}", "Remove it: the stream carries its own statements."
        section.problem("ddl_from", "a changefeed of the Avro protocol to give it to", found, advice)
    elif not changefeed.sink.has_commit_ts:
        advice = "Nothing orders statements and rows: give cdc enable-tidb-extension=true."
        section.problem("ddl_from", "rows with a commit_ts", "an Avro changefeed without the TiDB extension", advice)


def _is_another(feeds: Section, changefeed: Changefeed, section: Section, key: str, wanted: str, does: str) -> bool:
    """Whether the key names another changefeed of the file."""
    others = [name for name in feeds if name != changefeed.name]
    if wanted not in others:
        meant = nearest(wanted, others)
        advice = f"Did you mean {meant}?" if meant else f"Name a changefeed that {does}."
        section.problem(key, "the name of another changefeed", shown(wanted), advice)
    return wanted in others
