"""The keys of the whole `changefeeds.yaml`; those of Spark."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from ticdc_assets.config.catalog import CatalogKeys
from ticdc_assets.config.changefeed_keys import ChangefeedKeys
from ticdc_assets.config.object_store_keys import ObjectStoreKeys
from ticdc_assets.config.reading import NAME, shown
from ticdc_assets.config.secrets import Settings
from ticdc_assets.config.validation import Keys, Refusal, refuse_any, refused
from ticdc_assets.config.values import FreeSettings, Text

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
