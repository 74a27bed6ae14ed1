"""The keys of the whole `changefeeds.yaml`; those of Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from ticdc_assets.config.keys.catalog import CatalogKeys, catalog_of
from ticdc_assets.config.keys.changefeed import changefeed_of
from ticdc_assets.config.keys.changefeed_keys import ChangefeedKeys
from ticdc_assets.config.keys.object_store import ObjectStoreKeys, object_store_of
from ticdc_assets.config.model.config import Changefeed, Config, SparkConfig
from ticdc_assets.config.model.object_store import ObjectStore
from ticdc_assets.config.model.sink import Protocol
from ticdc_assets.config.model.source import KafkaSource, MessagesSource, StorageSource
from ticdc_assets.config.reading.secrets import Settings
from ticdc_assets.config.reading.sections import NAME, Section, nearest, shown
from ticdc_assets.config.reading.validation import Context, Keys, Refusal, refuse_any, refused, validated
from ticdc_assets.config.reading.values import FreeSettings, Text
from ticdc_assets.names import control_namespace

_LOCAL: Final = "local[*]"
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


def _master(master: str) -> str:
    if master.startswith("sc://"):
        raise refused(*_NO_CONNECT)
    if master and not _MASTER.fullmatch(master):
        advice = "Spark knows local, local[N], local[*], spark://host:port, yarn and k8s://https://host:port."
        raise refused("the master of a Spark", shown(master), advice)
    return master or _LOCAL


def _no_remote(value: Any) -> Any:
    raise refused(*_NO_CONNECT)


def _conf(conf: Settings) -> Settings:
    advice = "Spark takes no other settings, and would not tell."
    others = [name for name in conf if not name.startswith(_SETTING)]
    refusals = [Refusal(f"names that begin with {_SETTING}", shown(name), advice) for name in others]
    if "spark.master" in conf:  # settings that depend on the master are chosen by the key
        advice = "Write it as master:, next to conf:."
        refusals.append(Refusal("settings without spark.master", "spark.master", advice))
    if "spark.remote" in conf:
        refusals.append(Refusal(*_NO_CONNECT))
    if conf.get(_CASE, "true").strip().lower() != "true":
        advice = "Remove it. Spark would take columns of a source for one, such as s and the long s."
        refusals.append(Refusal(f"{_CASE}: true", shown(conf[_CASE]), advice))
    refuse_any(*refusals)
    return conf


class SparkKeys(Keys):
    """Where Spark runs."""

    master: Annotated[Text, AfterValidator(_master)] = Field(
        default=_LOCAL, description="the master; see also [clusters](cluster.md)", examples=["spark://host:7077"]
    )
    conf: Annotated[FreeSettings, AfterValidator(_conf)] = Field(
        default=Settings(),
        description="Spark settings; they override this project's own. `spark.master`, `spark.remote` and another "
        "`spark.sql.caseSensitive` than `true` are refused here",
        examples=[{"spark.driver.memory": "4g"}],
    )
    remote: SkipJsonSchema[Annotated[None, BeforeValidator(_no_remote)]] = None


class ConfigFile(Keys):
    """The file `changefeeds.yaml`."""

    model_config = ConfigDict(json_schema_extra={"required": ["changefeeds"]})

    catalog: CatalogKeys = Field(
        default_factory=CatalogKeys,
        description="the Iceberg catalog: `sql` (SQLite below `./lake`, the default), `rest`, `glue` or `hive`, with "
        "[a block for each](catalogs.md)",
        examples=[{"warehouse": "s3://lake/warehouse"}],
    )
    object_store: ObjectStoreKeys | None = Field(
        default=None,
        description="the S3, Google or Azure store of the warehouse and the source buckets, [once for all "
        "libraries](#object_store)",
        examples=[{"endpoint": "http://minio:9000"}],
    )
    spark: SparkKeys = Field(
        default_factory=SparkKeys, description="[where Spark runs](#spark)", examples=[{"master": "spark://host:7077"}]
    )
    changefeeds: dict[str, ChangefeedKeys] = Field(
        default={},
        description="[a changefeed](#a-changefeed) by its name: letters, digits and `_`, no digit first",
        examples=[{"shop": {"sink_uri": "s3://bucket/prefix?protocol=canal-json&enable-tidb-extension=true"}}],
        json_schema_extra={"propertyNames": {"pattern": f"^{NAME.pattern}$"}},
    )


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
