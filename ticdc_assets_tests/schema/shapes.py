"""Tables as statements make and alter them."""

from __future__ import annotations

from ticdc_assets.schema import ddl
from ticdc_assets.schema.evolution import Change, Shape, alter_all, create


def table(body: str, after: str = "") -> Shape:
    (statement,) = ddl.parse(f"CREATE TABLE t ({body}) {after}", "s")
    return create(statement)


def altered(shape: Shape, text: str) -> Change:
    (statement,) = ddl.parse(f"ALTER TABLE t {text}", "s")
    return alter_all(shape, statement)
