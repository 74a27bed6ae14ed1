"""Mirrors and changelogs for a user's own assets: as a resource, and as an I/O manager for inputs.

Both read the snapshots that a record in `watermarks` names, never the newest ones, so that tables fit together.
"""

# Dagster evaluates the annotations of resources, so this module must not postpone them.
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import dagster as dg

from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.resources import tso_of
from ticdc_assets.assets.translation import plain_key
from ticdc_assets.config import Changefeed, Config, load
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.recorded.lake import RecordedLake, RecordedTable, recorded_lake

_FORMS: Final = {
    ("pyarrow", "Table"): "to_arrow",
    ("pandas", "DataFrame"): "to_pandas",
    ("polars", "DataFrame"): "to_polars",
    ("duckdb", "DuckDBPyRelation"): "to_duckdb",
    ("_duckdb", "DuckDBPyRelation"): "to_duckdb",
    ("pyspark", "DataFrame"): "to_spark",
}
"""The method that makes an input of the annotated type, by the type's package and name."""


class LakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The lake of one changefeed: `lake.mirror("shop.users").to_polars()`.

    `config_path` is the changefeeds.yaml; "" means the file in TICDC_ASSETS_CONFIG. `changefeed` may be left out where
    the config has one. `at` is the TSO to read at, as text; "" means the newest record at each call. Take several
    tables from one `lake.recorded()`, which keeps its TSO. To read a table that is held is refused, unless `tables`,
    patterns such as `shop.users` or `*.*`, select it: then the record is the newest in which these are complete.
    """

    config_path: str = ""
    changefeed: str = ""
    at: str = ""
    tables: list[str] = []  # noqa: RUF012  pydantic copies it

    def recorded(
        self, at: int | None = None, tables: Sequence[str] = (), stays_before_quarantine: bool | None = None
    ) -> RecordedLake:
        """The tables of the newest record up to `at` in which `tables` (default: those of the resource) are complete.

        Args:
            stays_before_quarantine: whether the newest record is one before the first record in quarantine; None for
                the config's `readers`.

        Raises:
            NotYetError: there is no such record.
        """
        config, changefeed = self._chosen()
        at = self._at() if at is None else at
        return recorded_lake(config, changefeed, at, tables or self.tables, stays_before_quarantine)

    def mirror(self, name: str, at: int | None = None) -> RecordedTable:
        """The current rows of the source table `schema.table`."""
        return self.recorded(at).mirror(name)

    def changelog(self, name: str, at: int | None = None) -> RecordedTable:
        """Every change of the source table `schema.table`."""
        return self.recorded(at).changelog(name)

    def history_table(self, name: str, at: int | None = None) -> RecordedTable:
        """Every version of every row of the source table `schema.table`, from the table that runs keep."""
        return self.recorded(at).history_table(name)

    def _at(self) -> int | None:
        return tso_of("at", self.at) if self.at else None

    def _chosen(self) -> tuple[Config, Changefeed]:
        if self.config_path:
            config = load(Path(self.config_path), os.environ, "Correct config_path of the resource.")
        else:
            config = load(None, os.environ)
        if self.changefeed:
            return config, config.changefeed(self.changefeed)
        if len(config.changefeeds) == 1:
            return config, config.changefeeds[0]
        listed = ", ".join(changefeed.name for changefeed in config.changefeeds)
        advice = "Name one in `changefeed` of the resource."
        raise ConfigError(str(config.path), "one changefeed", listed, advice)


class LakeIOManager(dg.ConfigurableIOManager):
    """Gives a mirror or a changelog to an asset that names it as an input, in the form of the input's annotation.

    The annotation is a table of pyarrow, a DataFrame of pandas, polars or Spark, a relation of DuckDB, or
    `RecordedTable`, which is also the default. The metadata of the input may have `columns`, a list, and `where`, a
    condition in SQL. The inputs of one step are of one TSO. It stores no outputs.
    """

    lake: dg.ResourceDependency[LakeResource]
    _recorded: tuple[str, RecordedLake] | None = None

    def load_input(self, context: dg.InputContext) -> Any:
        """The input of the step.

        Raises:
            ConfigError: the asset is no mirror or changelog of the changefeed, or the annotation is of another type.
            NotYetError: there is no complete record yet.
        """
        table = _named(self._of_step(context), _plain_key_of(context))
        annotated = context.dagster_type.typing_type
        if annotated in (Any, RecordedTable):
            return table
        form = _FORMS.get((annotated.__module__.partition(".")[0], annotated.__name__))
        if form is None:
            listed = ", ".join(f"{package}'s {name}" for package, name in _FORMS if package[0] != "_")
            found = f"{annotated.__module__}.{annotated.__name__}"
            raise ConfigError(f"input {context.name}", f"RecordedTable or {listed}", found, "Change its annotation.")
        metadata = context.definition_metadata
        return getattr(table, form)(metadata.get("columns"), metadata.get("where", ""))

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Refused: runs of the changefeed write the lake."""
        advice = "Give the asset another io_manager_key; use this one as the input_manager_key of its inputs."
        raise ConfigError(context.get_identifier()[-1], "an asset without this I/O manager", "an output", advice)

    def _of_step(self, context: dg.InputContext) -> RecordedLake:
        step = context.step_context
        name = f"{step.run_id} {step.step.key} {step.previous_attempt_count}"
        if self._recorded is None or self._recorded[0] != name:
            self._recorded = (name, self.lake.recorded())
        return self._recorded[1]


def _plain_key_of(context: dg.InputContext) -> dg.AssetKey:
    """The key of the input without a translation."""
    upstream = context.upstream_output
    spec = upstream.asset_spec if upstream is not None else None
    return context.asset_key if spec is None else plain_key(spec)


def _named(recorded: RecordedLake, key: dg.AssetKey) -> RecordedTable:
    """The table whose asset has this key."""
    changefeed = recorded.lake.changefeed
    names = FeedNames(changefeed.name, str(changefeed.sink.protocol))
    for table in recorded.record.tables:
        if key == names.mirror(table.schema, table.table):
            return recorded.mirror(f"{table.schema}.{table.table}")
        if key == names.changelog(table.schema, table.table):
            return recorded.changelog(f"{table.schema}.{table.table}")
        if key == names.history(table.schema, table.table):
            return recorded.history_table(f"{table.schema}.{table.table}")
    advice = "Name the key of one of its mirrors, changelogs or histories, as Dagster shows it."
    where = f"changefeed {changefeed.name}"
    raise ConfigError(where, "an input that is one of its tables", key.to_user_string(), advice)
