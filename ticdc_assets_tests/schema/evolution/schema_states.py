"""Tables made and altered by statements, for tests."""

from __future__ import annotations

from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.evolution.evolve import alter_all, create
from ticdc_assets.schema.evolution.schema_state import Change, Shape


def table(body: str, after: str = "") -> Shape:
    (statement,) = parse(f"CREATE TABLE t ({body}) {after}", "s")
    return create(statement)


def altered(shape: Shape, text: str) -> Change:
    (statement,) = parse(f"ALTER TABLE t {text}", "s")
    return alter_all(shape, statement)
