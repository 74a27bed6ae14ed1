"""Tables made and altered by statements, for tests."""

from __future__ import annotations

from ticdc_assets.schema.ddl import parser as ddl
from ticdc_assets.schema.evolution.evolve import Change, Shape, alter_all, create


def table(body: str, after: str = "") -> Shape:
    (statement,) = ddl.parse(f"CREATE TABLE t ({body}) {after}", "s")
    return create(statement)


def altered(shape: Shape, text: str) -> Change:
    (statement,) = ddl.parse(f"ALTER TABLE t {text}", "s")
    return alter_all(shape, statement)
