"""The base of the models of `changefeeds.yaml`; what pydantic refuses becomes faults with line, key path and advice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from ticdc_assets.config.reading.sections import Section, kind_of, nearest, shown
from ticdc_assets.errors import ConfigError

_WORD: Final = re.compile(r"'([^']*)'")
_NO_MAPPING: Final = frozenset({"model_type", "dict_type", "model_attributes_type"})
Location = tuple[int | str, ...]
K = TypeVar("K", bound="Keys")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """What the values of a file are read with: the environment, and the folder of relative paths."""

    environ: Mapping[str, str]
    base: Path


@dataclass(frozen=True, slots=True)
class Refusal:
    """One fault of a value: `below` leads from the value to the key at fault, `within` is a place in what it names."""

    expected: str
    found: str
    advice: str
    below: tuple[str, ...] = ()
    within: str = ""


class RefusedError(ValueError):
    """A validator refuses a value. Pydantic collects it with the other errors of the file."""

    def __init__(self, *refusals: Refusal) -> None:
        super().__init__("refused")
        self.refusals = refusals


def refused(expected: str, found: str, advice: str) -> RefusedError:
    """The error of the value that is validated."""
    return RefusedError(Refusal(expected, found, advice))


def refuse_any(*refusals: Refusal) -> None:
    """Refuse the value that is validated where it has faults."""
    if refusals:
        raise RefusedError(*refusals)


def each(values: Mapping[str, Any], read: Callable[[str, Any], T]) -> dict[str, T]:
    """What is read of each value of a mapping. The faults of all are refused together, each at its name."""
    found: dict[str, T] = {}
    refusals: list[Refusal] = []
    for name, value in values.items():
        try:
            found[name] = read(name, value)
        except RefusedError as error:
            refusals += (replace(refusal, below=(name,)) for refusal in error.refusals)
    refuse_any(*refusals)
    return found


def refused_by(error: ConfigError) -> RefusedError:
    """The error of a part that does not know the file."""
    return RefusedError(Refusal(error.expected, error.found, error.advice, within=error.where))


class Keys(BaseModel):
    """The keys of one mapping of the file. A key without a value is absent; an unknown one is refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
        defer_build=True,  # the model of the file builds those below it, once
    )

    @model_validator(mode="before")
    @classmethod
    def _without_empty_keys(cls, values: Any) -> Any:
        if values is None:
            return {}
        if not isinstance(values, dict):
            return values
        return {key: value for key, value in values.items() if value is not None or key not in cls.model_fields}

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Nothing: values may be secret."""
        return iter(())


def validated(model: type[K], section: Section, context: Context) -> K | None:
    """The keys of the section; its faults are added to its problems.

    A key with a fault has its default, so that checks of several keys find the other faults of the file. None if the
    section lacks a key that it needs.
    """
    values: Any = section.values
    faulty: set[Location] = set()
    while values is not None:
        try:
            return model.model_validate(values, context=context)
        except ValidationError as error:
            for found in error.errors(include_url=False):
                if found["type"] == "missing":
                    if found["loc"] not in faulty:  # else it is written, but with a fault
                        _report(section, found["loc"], _missing(model, found["loc"]))
                    values = _without(values, found["loc"][:-1])
                    continue
                for refusal in _refusals(model, found):
                    place = (*found["loc"], *refusal.below)
                    _report(section, place, refusal)
                    faulty.add(place)
                    values = _without(values, place)
    return None


def _report(section: Section, place: Location, refusal: Refusal) -> None:
    *above, key = map(str, place)
    where = section.below(*above).place(key)
    where = f"{where}, {refusal.within}" if refusal.within else where
    section.problems.add(where, refusal.expected, refusal.found, refusal.advice)


def _without(values: Any, place: Location) -> Any:
    """The values without the one at the place; None if it is the whole."""
    if not place:
        return None
    if not isinstance(values, dict) or place[0] not in values:
        return values
    below = _without(values[place[0]], place[1:])
    if below is None:
        return {key: value for key, value in values.items() if key != place[0]}
    return {**values, place[0]: below}


def _refusals(model: type[Keys], found: Mapping[str, Any]) -> Sequence[Refusal]:
    """What is wrong, in the words of this project. A value is quoted only where it should be one of a few words."""
    key, value, kind = str(found["loc"][-1]), found["input"], found["type"]
    if kind == "value_error":
        error = found["ctx"]["error"]
        assert isinstance(error, RefusedError), error
        return error.refusals
    if kind == "extra_forbidden":
        known = tuple(_model_at(model, found["loc"][:-1]).model_fields)
        meant = nearest(key, known)
        advice = f"Did you mean {meant}?" if meant else f"Known keys: {', '.join(sorted(known))}."
        return (Refusal("a known key", "an unknown one", advice),)
    if kind in ("enum", "literal_error"):
        words = _WORD.findall(found["ctx"]["expected"])
        meant = nearest(str(value), words)
        advice = f"Did you mean {meant}?" if meant else f"Write one of {', '.join(words)}."
        return (Refusal(f"one of {', '.join(words)}", shown(value), advice),)
    if kind == "string_too_short":
        return (_missing(model, found["loc"]),)
    if kind == "bool_type":
        return (Refusal("true or false", shown(value), "Write true or false, without quotes, or leave it out."),)
    assert kind in _NO_MAPPING, kind
    return (Refusal("a mapping", f"a {kind_of(value)}", f"Write keys and values below {key}."),)


def _missing(model: type[Keys], place: Location) -> Refusal:
    field = _model_at(model, place[:-1]).model_fields[str(place[-1])]
    return Refusal(str(field.description), "none", f"Add {place[-1]}:.")


def _model_at(model: type[Keys], place: Location) -> type[Keys]:
    """The model of the mapping at a place."""
    is_name = False
    for key in place:
        if is_name:  # such as that of a changefeed
            is_name = False
            continue
        annotation = model.model_fields[str(key)].annotation
        model, is_name = next(_models_in(annotation)), get_origin(annotation) is dict
    return model


def _models_in(annotation: Any) -> Iterator[type[Keys]]:
    if isinstance(annotation, type) and issubclass(annotation, Keys):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
