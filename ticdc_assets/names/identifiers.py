"""The identifiers of the tables of a changefeed, from the templates in the config."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import Final

from ticdc_assets.errors import ConfigError, SchemaError
from ticdc_assets.names.encoding import PLAIN, encode


@dataclass(frozen=True, slots=True)
class IdentifierTemplates:
    """Templates of identifiers: parts joined with dots, with the fields {schema}, {table} and {changefeed}.

    `view` is None where mirrors have no views. `portable` is for catalogs that ignore case and do not accept `-`.
    """

    mirror: str = "{schema}.{table}"
    changelog: str = "{schema}__changes.{table}"
    control: str = "ticdc_{changefeed}"
    view: str | None = None
    portable: bool = False


FIELDS: Final = ("schema", "table", "changefeed")


def mirror_identifier(target: IdentifierTemplates, changefeed: str, schema: str, table: str) -> tuple[str, ...]:
    """Namespace parts and table name of the mirror; never the identifier of a changelog or control table."""
    return _apart(target, target.mirror, (target.changelog,), changefeed, schema, table)


def changelog_identifier(target: IdentifierTemplates, changefeed: str, schema: str, table: str) -> tuple[str, ...]:
    """Namespace parts and table name of the changelog; never the identifier of a mirror or control table."""
    return _apart(target, target.changelog, (target.mirror,), changefeed, schema, table)


def view_identifier(target: IdentifierTemplates, changefeed: str, schema: str, table: str) -> tuple[str, ...] | None:
    """Namespace parts and name of the view of a table's mirror; None where mirrors have no views."""
    return None if target.view is None else _filled(target, target.view, changefeed, schema, table)


def control_namespace(target: IdentifierTemplates, changefeed: str) -> tuple[str, ...]:
    """The namespace of the changefeed's control tables."""
    return _filled(target, target.control, changefeed, "", "")


def _filled(target: IdentifierTemplates, template: str, changefeed: str, schema: str, table: str) -> tuple[str, ...]:
    values = {
        "changefeed": encode(changefeed, portable=target.portable),
        "schema": encode(schema, portable=target.portable),
        "table": encode(table, portable=target.portable),
    }
    return tuple(part.format(**values) for part in template.split("."))


def _apart(
    target: IdentifierTemplates, template: str, others: tuple[str, ...], changefeed: str, schema: str, table: str
) -> tuple[str, ...]:
    identifier = _filled(target, template, changefeed, schema, table)
    foreign = any(_is_narrower(other, template) and _reads_as(other, identifier) for other in others)
    if not foreign and identifier[:-1] != control_namespace(target, changefeed):
        return identifier
    # A database may be called shop__changes, which is the namespace of the changelogs of shop. Its namespace is
    # encoded further than by `encode`, so that it equals no other.
    marked = (*identifier[:-2], _marked(identifier[-2]), identifier[-1])
    if any(_is_narrower(other, template) and _reads_as(other, marked) for other in others):
        advice = "Give mirror and changelog templates under `target:` that differ in the namespace's beginning or end."
        raise SchemaError(
            f"table {schema}.{table}", "an identifier of its own", "one that another table could have", advice
        )
    return marked


def _marked(part: str) -> str:
    last = f"_x{ord(part[-1]):x}_"
    return last if len(part) == 1 else f"_x{ord(part[0]):x}_{part[1:-1]}{last}"


def _is_narrower(template: str, than: str) -> bool:
    """Whether everything that matches `template` also matches `than`, but not the reverse."""
    sample = tuple(part.format(schema="s", table="t", changefeed="c") for part in than.split("."))
    return not _reads_as(template, sample)


def _reads_as(template: str, identifier: tuple[str, ...]) -> bool:
    parts = template.split(".")
    return len(parts) == len(identifier) and all(
        re.fullmatch(_as_regex(part), text, re.DOTALL) for part, text in zip(parts, identifier, strict=True)
    )


def _as_regex(part: str) -> str:
    return "".join(re.escape(text) + (".+" if name else "") for text, name, _, _ in string.Formatter().parse(part))


def check_target(target: IdentifierTemplates) -> None:
    """Raise ConfigError, with the name of the template, if identifiers would be invalid or not unique."""
    for name, template, needs in (
        ("mirror", target.mirror, 2),
        ("changelog", target.changelog, 2),
        ("control", target.control, 1),
    ):
        _check_template(name, template, needs)
    for name in ("mirror", "changelog"):
        if "{table}" not in getattr(target, name):
            raise ConfigError(name, "{table} in the template", "none", "Add {table}, else all tables would be one.")
    if _are_alike(target.changelog, target.mirror):
        advice = 'Add a fixed text to one of them, such as "{schema}__changes.{table}".'
        raise ConfigError("changelog", "identifiers that no mirror can have", "a template like that of mirror", advice)


def check_view(target: IdentifierTemplates) -> None:
    """Raise ConfigError if the identifiers of views would be invalid, or equal to those of tables."""
    where, example = "views", 'Write it as "{schema}__recorded.{table}".'
    if target.view is None:
        return
    _check_template(where, target.view, 2, example)
    if "{table}" not in target.view:
        raise ConfigError(where, "{table} in the template", "none", "Add {table}, else all views would be one.")
    for name in ("mirror", "changelog"):
        if _are_alike(target.view, getattr(target, name)):
            expected, found = f"identifiers that no {name} can have", f"a template like that of {name}"
            raise ConfigError(where, expected, found, example)


def _are_alike(one: str, other: str) -> bool:
    """Whether identifiers of either template can be identifiers of the other."""
    samples = [tuple(part.format(schema="s", table="t", changefeed="c") for part in t.split(".")) for t in (one, other)]
    return _reads_as(one, samples[1]) and _reads_as(other, samples[0])


def _check_template(name: str, template: str, parts_min: int, example: str = "") -> None:
    parts = template.split(".")
    if len(parts) < parts_min or not all(parts):
        expected = "namespace and table with a dot between" if parts_min > 1 else "a namespace"
        advice = example or f'Write it as "{getattr(IdentifierTemplates(), name)}".'
        raise ConfigError(name, expected, "fewer or empty parts", advice)
    try:
        pieces = [piece for part in parts for piece in string.Formatter().parse(part)]
    except ValueError:
        raise ConfigError(name, "a template", "unpaired braces", "Close each { with }.") from None
    fields = ("changefeed",) if name == "control" else FIELDS
    for literal, field_name, spec, conversion in pieces:
        if field_name is not None and (field_name not in fields or spec or conversion):
            raise ConfigError(name, f"only the fields {', '.join(fields)}", "another field", "Remove it.")
        if not set(literal) <= PLAIN:
            raise ConfigError(name, "letters, digits, _ and - between fields", "other characters", "Remove them.")


def quote(name: str) -> str:
    """Quote an identifier for Spark SQL."""
    return f"`{name.replace('`', '``')}`"


def quote_path(parts: tuple[str, ...]) -> str:
    """Quote a path of identifiers for Spark SQL, such as catalog, namespace and table."""
    return ".".join(quote(part) for part in parts)
