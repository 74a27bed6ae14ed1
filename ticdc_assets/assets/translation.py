"""What a code location may change of a changefeed's assets: key, group, tags, owners, kinds, description.

A translation gets each asset with its plain key, and returns the spec that Dagster shows. Steps, checks, jobs, sensors,
lineage and the I/O manager use the translated keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import dagster as dg

from ticdc_assets.assets.keys import ENDINGS
from ticdc_assets.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN_KEY: Final = "ticdc_assets/plain_key"
"""Metadata of an asset with a translated key: the key without the translation."""

_PARTS_OF_A_TABLE: Final = 4


@dataclass(frozen=True, slots=True)
class ChangefeedAsset:
    """One asset of a changefeed, the argument of a translation.

    `kind` is source, schema_cache, quarantine, changelog, mirror, history, watermarks or days. `schema` and `table` are
    those of a changelog, mirror or history, in the form that Dagster accepts in a key, and else "". `spec` is the asset
    without the translation; its metadata `source_table` has the name of the table at the source.
    """

    changefeed: str
    kind: str
    schema: str
    table: str
    spec: dg.AssetSpec

    @classmethod
    def of(cls, spec: dg.AssetSpec) -> ChangefeedAsset:
        """The asset with this plain key."""
        changefeed, kind, *of_table = spec.key.path
        if len(spec.key.path) < _PARTS_OF_A_TABLE:
            return cls(changefeed, kind, "", "", spec)
        schema, table = of_table
        return cls(changefeed, kind, schema, table.removesuffix(ENDINGS.get(kind, "")), spec)

    @property
    def name(self) -> str:
        """The last part of the plain key, which differs between all assets of one schema."""
        return self.spec.key.path[-1]


Translate = Callable[[ChangefeedAsset], dg.AssetSpec]


def translated(plain: dg.AssetSpec, translate: Translate, keys: Mapping[dg.AssetKey, dg.AssetKey]) -> dg.AssetSpec:
    """The spec that Dagster shows. `keys` has the translated keys of the assets that it depends on.

    A run needs the dependencies of the plain spec for the order of its steps, so a translation can only add to them.
    """
    shown = translate(ChangefeedAsset.of(plain))
    deps = {dep.asset_key: dep for dep in (*plain.deps, *shown.deps)}
    mapped = [dg.AssetDep(keys.get(key, key), partition_mapping=dep.partition_mapping) for key, dep in deps.items()]
    mark = {} if shown.key == plain.key else {PLAIN_KEY: plain.key.to_user_string()}
    return shown.replace_attributes(deps=mapped, metadata={**shown.metadata, **mark})


def plain_key(spec: dg.AssetSpec) -> dg.AssetKey:
    """The key of the asset without a translation."""
    marked = spec.metadata.get(PLAIN_KEY)
    return spec.key if marked is None else dg.AssetKey.from_user_string(str(getattr(marked, "value", marked)))


def translated_keys(changefeed: str, specs: Iterable[dg.AssetSpec]) -> dict[dg.AssetKey, dg.AssetKey]:
    """The translated key of each asset whose key is not the plain one, by its plain key.

    Raises:
        ConfigError: two assets get one key, or keys that differ only in `/` and `__`, which Dagster cannot have; or the
            key of a table's asset has an empty part, as the text of a name that a template does not know.
    """
    plain: dict[str, dg.AssetKey] = {}
    renamed: dict[dg.AssetKey, dg.AssetKey] = {}
    for spec in specs:
        own = plain_key(spec)
        if len(own.path) == _PARTS_OF_A_TABLE and not all(spec.key.path):
            found = f"{spec.key.to_user_string()} for {own.to_user_string()}"
            advice = "Check the names in {{ }}: `data` has changefeed, kind, schema, table and name."
            raise ConfigError(f"changefeed {changefeed}, translation", "a key without empty parts", found, advice)
        other = plain.setdefault(spec.key.to_python_identifier(), own)
        if other != own:
            found = f"{spec.key.to_user_string()} for both {other.to_user_string()} and {own.to_user_string()}"
            advice = "Use `data.kind`, `data.schema` and `data.table`, or `data.name`, in the key."
            raise ConfigError(f"changefeed {changefeed}, translation", "a different key for each asset", found, advice)
        if spec.key != own:
            renamed[own] = spec.key
    return renamed
