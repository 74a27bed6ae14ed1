"""The text in which the lake stores statements and schemas."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints, DdlOrigin
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.tables.ddl_json import ddl_from_json, ddl_to_json

PLAIN = DdlEvent(5, "s", "t", "DROP TABLE t")
FULL = DdlEvent(
    5,
    "s",
    "t",
    "RENAME TABLE a TO t",
    before=TableSchema("s", "a", (), ()),
    hints=DdlHints(("s", "a"), 4, 3, 7, after_is_ordered=False),
    where="feed[0]@5",
    origin=DdlOrigin(True, 1, 2, ("feed", 0, 5)),
    fault="why",
    loaded=True,
    unexplained="c",
    lacking="d",
    displaced=True,
)
STORED = (
    '{"commit_ts":5,"schema":"s","table":"t","query":"DROP TABLE t","after":null,"before":null,"old_name":null,'
    '"version":null,"before_version":null,"table_id":null,"after_is_ordered":true,"where":"","as_written":false,'
    '"commit_ms":null,"sent_ms":null,"place":null,"fault":"","loaded":false}'
)


def test_the_text_is_flat_and_keeps_its_order():
    """Rows of `schemas` are compared by this text, so existing lakes need the same text from the same event."""
    assert ddl_to_json(PLAIN) == STORED


@pytest.mark.parametrize("event", [PLAIN, FULL])
def test_the_event_of_a_text_is_the_event_that_gave_it(event: DdlEvent):
    assert ddl_from_json(ddl_to_json(event)) == event


def test_fields_that_a_text_lacks_have_their_defaults():
    text = json.dumps({"commit_ts": 5, "schema": "s", "table": "t", "query": "DROP TABLE t"})
    assert ddl_from_json(text) == PLAIN


def test_no_name_is_a_field_of_two_parts():
    names = [field.name for part in (DdlEvent, DdlHints, DdlOrigin) for field in fields(part)]
    assert len(names) == len(set(names))
