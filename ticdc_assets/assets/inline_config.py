"""A config that stands in a defs.yaml: its values with their lines, and templates replaced by their values."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from ticdc_assets.config import SCHEMA, Config, config_within
from ticdc_assets.config.reading.sections import Block, kind_of
from ticdc_assets.errors import ConfigError


@dataclass(frozen=True, slots=True)
class InlineConfig:
    """The value of `config` in a defs.yaml. `base` is the root of the project; `unset` has the templates without a
    value, by place."""

    file: Path
    values: Any = field(repr=False)  # a template may have put a password into it
    base: Path
    unset: Mapping[str, str]

    def checked(self) -> Config:
        """The config. Raises ConfigError with all its faults."""
        for place, template in self.unset.items():
            advice = "Set the environment variable, or correct the template."
            raise ConfigError(f"{self.file}, {place}", "a template that has a value", template, advice)
        if not isinstance(self.values, Block):
            advice = "Write the keys of a changefeeds.yaml below it."
            raise ConfigError(f"{self.file}, attributes.config", "a mapping", f"a {kind_of(self.values)}", advice)
        return config_within(self.file, "attributes.config", self.values, os.environ, self.base)


def inline_config(context: dg.ResolutionContext, values: Any) -> InlineConfig | None:
    """What Dagster makes of the key `config`."""
    if values is None:
        return None
    tree = context.source_position_tree
    file = Path(tree.position.filename) if tree is not None else Path("defs.yaml")
    for key in context.path:
        tree = tree.children.get(key) if tree is not None else None
    base = Path(str(context.resolve_value("{{ context.project_root }}")))
    unset: dict[str, str] = {}
    return InlineConfig(file, _block(context, values, tree, unset), base, unset)


def described() -> dict[str, Any]:
    """The JSON Schema of the keys of a config, with their descriptions and examples and without their types: `dg check
    yaml` would quote the whole value at the first fault, where the config's own check names the place of each."""
    whole = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return {**_described(whole, whole["definitions"]), "type": "object"}


def _described(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in schema.get("anyOf", ()):
        found |= _described(part, definitions)
    if "$ref" in schema:
        found |= _described(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    found |= {key: schema[key] for key in ("description", "examples") if key in schema}
    if "properties" in schema:
        found["properties"] = {key: _described(of_key, definitions) for key, of_key in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = _described(schema["additionalProperties"], definitions)
    return found


def _block(context: dg.ResolutionContext, values: Any, tree: Any, unset: dict[str, str]) -> Any:
    """The values with templates resolved; `tree` is Dagster's tree of their positions, None where it has none."""
    children = tree.children if tree is not None else {}
    if isinstance(values, dict):
        of_keys = ((key, context.at_path(key), value) for key, value in values.items())
        block = Block({key: _block(below, value, children.get(key), unset) for key, below, value in of_keys})
        block.lines = {key: child.position.start.line for key, child in children.items()}
        return block
    if isinstance(values, list):
        return [_block(context.at_path(n), value, children.get(n), unset) for n, value in enumerate(values)]
    if not isinstance(values, str) or "{{" not in values:
        return values  # Dagster would make a number of a text of digits
    value: Any = context.resolve_value(values, as_type=object)
    if value is None:
        line = f" (line {tree.position.start.line})" if tree is not None else ""
        unset[".".join(map(str, context.path)) + line] = values
    return value
