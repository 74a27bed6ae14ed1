"""Statements and schemas as JSON text, the form in which the control table `schemas` stores them.

The text is flat: the fields of the event, in order, with those of `hints` and `origin` in their place. Fields that
later versions of this project added are left out where they have their default, so that an event has the same text in
all versions.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, SerializerFunctionWrapHandler, TypeAdapter, WrapSerializer

from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints, DdlOrigin

_PARTS: Final = {"hints": DdlHints, "origin": DdlOrigin}
_ADDED: Final = {"unexplained": "", "lacking": "", "displaced": False, "copied": False, "gap_from": 0}
"""The added fields, with their defaults."""


def ddl_to_json(event: DdlEvent) -> str:
    """The text of an event. Equal events give equal text."""
    return _TYPE.dump_json(event).decode()


def ddl_from_json(text: str) -> DdlEvent:
    """The event of such a text.

    Raises:
        pydantic.ValidationError: the text is not one of `ddl_to_json`.
    """
    return _TYPE.validate_json(text)


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    parts = {name: {f.name: flat.pop(f.name) for f in fields(kind) if f.name in flat} for name, kind in _PARTS.items()}
    return {**flat, **parts}


def _flat(event: DdlEvent, nested: SerializerFunctionWrapHandler) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in nested(event).items():
        found.update(value if name in _PARTS else {name: value})
    return {name: value for name, value in found.items() if name not in _ADDED or value != _ADDED[name]}


_TYPE: Final[TypeAdapter[DdlEvent]] = TypeAdapter(Annotated[DdlEvent, BeforeValidator(_nested), WrapSerializer(_flat)])
