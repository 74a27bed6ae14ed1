"""The kinds of values in `changefeeds.yaml`: texts, lists, paths, settings. Each has its form in the JSON Schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, PlainValidator, ValidationInfo, WithJsonSchema

from ticdc_assets.config.reading.files import absolute_path
from ticdc_assets.config.reading.secrets import Secret, Settings
from ticdc_assets.config.reading.sections import kind_of
from ticdc_assets.config.reading.validation import Context, each, refused

_MAY_BE_EMPTY: Final = "password"
"""The end of the keys whose value may be empty. Elsewhere an empty variable is one that nobody has set: with it, the
default would be taken for what the file names."""


def only(key: str, form: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a mapping of one key."""
    return {"type": "object", "properties": {key: form}, "required": [key], "additionalProperties": False}


VARIABLE: Final = only("env", {"type": "string", "description": "the name of an environment variable"})
TEXT: Final[dict[str, Any]] = {"anyOf": [{"type": "string"}, VARIABLE]}
TEXTS: Final[dict[str, Any]] = {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": "string"}}]}
SETTING: Final[dict[str, Any]] = {"anyOf": [{"type": ["string", "number", "boolean"]}, VARIABLE]}


def text_of(value: object, context: Context, key: str, *, numbers: bool = False) -> str:
    """The text, or the value of the variable in `{env: NAME}`. Raises RefusedError where there is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _variable(value, context, key)
    if numbers and isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    raise refused("a text", f"a {kind_of(value)}", "Put it in quotes, or write {env: NAME}.")


def _variable(value: dict[str, Any], context: Context, key: str) -> str:
    name = value.get("env")
    if list(value) != ["env"] or not isinstance(name, str):
        raise refused("a text or {env: NAME}", "another mapping", "Write {env: NAME}, with nothing else in it.")
    found = context.environ.get(name)
    if found is None:
        raise refused(f"the environment variable {name}", "none set", f"Set {name} and try again.")
    if not found and not key.endswith(_MAY_BE_EMPTY):
        raise refused(f"a value in the environment variable {name}", "an empty one", f"Set {name}, or remove it.")
    return found


def _text(value: Any, info: ValidationInfo[Context]) -> str:
    return text_of(value, info.context, info.field_name or "")


def _secret(value: Any, info: ValidationInfo[Context]) -> Secret | None:
    return Secret(text) if (text := _text(value, info)) else None


def _path(value: Any, info: ValidationInfo[Context]) -> Path | None:
    return Path(absolute_path(info.context.base, text)) if (text := _text(value, info)) else None


def texts_of(value: Any) -> tuple[str, ...]:
    """A list of texts; a single text is a list of one."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    found = f"a {kind_of(value)}"
    if isinstance(value, list):
        found += f" with a {kind_of(next(item for item in value if not isinstance(item, str)))}"
    raise refused("a list of texts", found, 'Write ["...", "..."].')


def _settings(value: Any, info: ValidationInfo[Context]) -> Settings:
    """A free mapping of names to values, for a library that checks it."""
    if not isinstance(value, dict):
        raise refused("a mapping", f"a {kind_of(value)}", f"Write keys and values below {info.field_name}.")
    found = each(value, lambda name, written: text_of(written, info.context, name, numbers=True))
    return Settings(found, frozenset(name for name, written in value.items() if isinstance(written, dict)))


def _not_empty(text: str, info: ValidationInfo[Context]) -> str:
    if not text:
        raise refused("a value", "an empty text", f"Write one, or remove {info.field_name}.")
    return text


def _filled_path(value: Any, info: ValidationInfo[Context]) -> Path:
    return Path(absolute_path(info.context.base, _not_empty(_text(value, info), info)))


Text = Annotated[str, BeforeValidator(_text), WithJsonSchema(TEXT)]
"""A text, or `{env: NAME}`."""
FilledText = Annotated[Text, AfterValidator(_not_empty)]
SecretText = Annotated[Secret | None, PlainValidator(_secret), WithJsonSchema(TEXT)]
"""A text that is not shown; an empty one is none."""
FilePath = Annotated[Path | None, PlainValidator(_path), WithJsonSchema(TEXT)]
"""An absolute path; an empty one is none."""
FilledPath = Annotated[Path, PlainValidator(_filled_path), WithJsonSchema(TEXT)]
Texts = Annotated[tuple[str, ...], PlainValidator(texts_of), WithJsonSchema(TEXTS)]
FreeSettings = Annotated[
    Settings, PlainValidator(_settings), WithJsonSchema({"type": "object", "additionalProperties": SETTING})
]


def also(*forms: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Let the JSON Schema of a key take other forms too."""
    return lambda schema: schema["anyOf"].extend(forms)
