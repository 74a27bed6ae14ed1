"""Writes the JSON Schema of `changefeeds.yaml` and the tables of its keys in docs/config.md, from the models.

`python -m ticdc_assets_tests.config.reference` writes both; `test_reference` compares them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin

from jsonschema import Draft7Validator
from pydantic.json_schema import GenerateJsonSchema

from ticdc_assets.config import SCHEMA
from ticdc_assets.config.keys.catalog import CatalogKeys
from ticdc_assets.config.keys.changefeed_keys import ChangefeedKeys, OnChange, TargetKeys
from ticdc_assets.config.keys.config_file import ConfigFile, SparkKeys
from ticdc_assets.config.keys.dagster import DagsterKeys
from ticdc_assets.config.keys.kafka import KafkaKeys, SecurityKeys
from ticdc_assets.config.keys.object_store import ObjectStoreKeys
from ticdc_assets.config.keys.source import AuthKeys, RegistryKeys, SourceKeys, TlsKeys, UpstreamKeys
from ticdc_assets.config.reading.validation import Keys
from ticdc_assets.config.reading.values import SETTING, TEXT, TEXTS, VARIABLE
from ticdc_assets_tests.documentation.pages import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "config.md"
TABLES: Final[Mapping[str, type[Keys]]] = {
    "# changefeeds.yaml, key by key": ConfigFile,
    "## catalog": CatalogKeys,
    "## object_store": ObjectStoreKeys,
    "## spark": SparkKeys,
    "## A changefeed": ChangefeedKeys,
    "### target": TargetKeys,
    "### upstream": UpstreamKeys,
    "#### tls": TlsKeys,
    "### schema_registry": RegistryKeys,
    "#### auth": AuthKeys,
    "### dagster": DagsterKeys,
    "### source": SourceKeys,
    "### kafka": KafkaKeys,
    "#### security": SecurityKeys,
}
"""The models whose keys the page lists, by the heading of the table."""
CHANGES: Final = "### Keys that change"
_SHARED: Final = {"text": TEXT, "texts": TEXTS, "setting": SETTING, "variable": VARIABLE}
_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
"""The newest draft that all editors know."""
_NONE: Final = {"type": "null"}
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def key_changes() -> dict[str, tuple[OnChange, str]]:
    """By key of a changefeed, the effect of a change and what there is to know about it."""
    extra = {name: field.json_schema_extra for name, field in ChangefeedKeys.model_fields.items()}
    return {name: (OnChange(found["x-change"][0]), found["x-change"][1]) for name, found in extra.items()}


# ---- the JSON Schema -------------------------------------------------------------------------------------------------


class _Generator(GenerateJsonSchema):
    ignored_warning_kinds = {"non-serializable-default"}  # the defaults of sections and free settings


def schema() -> str:
    """The text of the JSON Schema file."""
    made = ConfigFile.model_json_schema(ref_template="#/definitions/{model}", schema_generator=_Generator)
    definitions = {name: _below(_object(found)) for name, found in sorted(made.pop("$defs").items())}
    shared = {name: _below(form) for name, form in _SHARED.items()}
    whole = {"$schema": _DRAFT, **_below(_object(made))}
    return json.dumps({**whole, "definitions": {**definitions, **shared}}, indent=1, ensure_ascii=False) + "\n"


def _object(found: dict[str, Any]) -> dict[str, Any]:
    """A mapping or a choice. It may be empty: then its keys are absent."""
    found = {key: value for key, value in found.items() if key != "title"}
    if "properties" in found:
        found["properties"] = {key: _property(value) for key, value in found["properties"].items()}
    return _or_none(found)


def _or_none(form: dict[str, Any]) -> dict[str, Any]:
    """The form, or nothing; a reference is to a form that may be nothing already."""
    if "enum" in form:
        form = {**form, "enum": [*form["enum"], None]}
    if "type" in form:
        return {**form, "type": [form["type"], "null"]}
    return form if {"$ref", "enum"} & form.keys() else {"anyOf": [form, _NONE]}


def _property(found: dict[str, Any]) -> dict[str, Any]:
    """One key; the description also says what a change does."""
    about = {key: found.pop(key) for key in ("description", "default", "examples") if key in found}
    found.pop("title", None)
    about["description"] = _LINK.sub(r"\1", about["description"])
    effect, sentence = found.pop("x-change", (None, None))
    if effect is not None:
        about["description"] += f".\n\nA change applies: {effect}" + (f". {sentence}" if sentence else "")
    if about.get("default") in (None, {}):
        about.pop("default", None)
    forms = [form for form in found.pop("anyOf", [found]) if form != _NONE]
    forms = next(([form] for form in _SHARED.values() if form.get("anyOf") == forms), forms)
    return {**about, **(_or_none(forms[0]) if len(forms) == 1 else {"anyOf": [*forms, _NONE]})}


def _shared(value: Any) -> Any:
    """The schema with references to the forms that many keys have."""
    name = next((name for name, form in _SHARED.items() if value == form), None)
    return _below(value) if name is None else {"$ref": f"#/definitions/{name}"}


def _below(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shared(below) for key, below in value.items()}
    return [_shared(below) for below in value] if isinstance(value, list) else value


def marked(values: Any) -> list[str]:
    """The places that an editor marks in a config, as dotted paths."""
    plain = json.loads(json.dumps(values, default=str))  # an editor takes a date for a text
    return [".".join(map(str, found.absolute_path)) for found in _validator().iter_errors(plain)]


@cache
def _validator() -> Draft7Validator:
    return Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


# ---- the page --------------------------------------------------------------------------------------------------------


def page() -> str:
    """The text of docs/config.md with its tables as the models have them."""
    text = PAGE.read_text(encoding="utf-8")
    for heading, model in TABLES.items():
        text = _with_table(text, heading, ["| key | default | |", "|---|---|---|", *_rows(model)])
    rows = [f"| `{key}` | {effect} | {sentence} |" for key, (effect, sentence) in key_changes().items()]
    return _with_table(text, CHANGES, ["| key | a change applies | |", "|---|---|---|", *rows])


def _with_table(text: str, heading: str, table: list[str]) -> str:
    """The text with this table in place of the first one below the heading."""
    before, after = text.split(f"{heading}\n", 1)
    found = re.search(r"(?:^\|.*\n)+", after, re.MULTILINE)
    assert found is not None, heading
    return f"{before}{heading}\n{after[: found.start()]}" + "\n".join(table) + f"\n{after[found.end() :]}"


def _rows(model: type[Keys]) -> Iterator[str]:
    for key, field in model.model_fields.items():
        if field.description is None:  # the key is known only to be refused
            continue
        words = " or ".join(f"`{word}`" for word in _words(field.annotation))
        examples = " or ".join(f"`{_flow(example)}`" for example in field.examples or ())
        meaning = (
            (f"{words}: " if words else "") + field.description + (f". For example {examples}" if examples else "")
        )
        default = field.default.value if isinstance(field.default, Enum) else field.default
        is_shown = isinstance(default, str | int | tuple) and default != () and not field.is_required()
        yield f"| `{key}` | {f'`{_flow(default)}`' if is_shown else ''} | {meaning} |"


def _words(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(word) for word in get_args(annotation)]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(word) for word in annotation]
    parts = () if get_origin(annotation) is dict else get_args(annotation)
    return [word for part in parts for word in _words(part)]


def _flow(value: Any) -> str:
    """The value as YAML has it on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {_flow(below)}" for key, below in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(json.dumps(below) if isinstance(below, str) else _flow(below) for below in value) + "]"
    needs_json = isinstance(value, bool) or (isinstance(value, str) and value.startswith(("{", "[", "*")))
    return json.dumps(value) if needs_json else str(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) and not key.isdigit() else json.dumps(key)


if __name__ == "__main__":
    SCHEMA.write_text(schema(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
