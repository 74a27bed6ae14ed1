"""Bulk decoding of messages with one JSON text and one row each, with the grammar of a protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ticdc_assets.protocols.columnar.message_bodies import bodies
from ticdc_assets.protocols.columnar.message_rows import BulkRows, Messages, RowHeaders, TableRows, heads_of
from ticdc_assets.protocols.columnar.raw_rows import TIME_TYPE, ops_of
from ticdc_assets.protocols.columnar.scanned_rows import (
    COMMIT_MS,
    COMMIT_TS,
    OP,
    SCHEMA_VERSION,
    TABLE_ID,
    ColumnsOf,
    alike,
    by_table,
    number_of,
    raw_rows,
    table_names,
    with_structs,
)
from ticdc_assets.protocols.formats.json.template import JsonTemplate
from ticdc_assets.protocols.formats.json.texts import NO_NAMES, ScannedTexts, scan_texts
from ticdc_assets.protocols.formats.string_arrays import Mask, joined

IsSound = Callable[[ScannedTexts, Any], Mask]


@dataclass(frozen=True, slots=True)
class RowGrammar:
    """The JSON form of a protocol's rows.

    row: a row with its values.
    head: a row without its values.
    source: the beginning of a row, up to the names and version of its table.
    columns: (text) to the names of its columns.
    is_sound: (found, options) to a mask of the found texts that are valid rows under these options.
    """

    row: JsonTemplate
    head: JsonTemplate
    source: JsonTemplate
    columns: ColumnsOf
    is_sound: IsSound

    def heads(self, messages: Messages, options: Any) -> RowHeaders:
        """The headers of the rows that have this form."""
        texts, message = bodies(messages.values, options.compression)
        data, bounds = joined(texts)
        found, _ = scan_texts(data, bounds[:-1], bounds[1:], self.head, NO_NAMES)
        found = self._sound(found, options)
        names, name = table_names(data, found.strings)
        return heads_of(
            messages=len(messages),
            names=names,
            message=message[found.rows],
            name=pa.array(name, pa.int32()),
            op=ops_of(found.numbers[:, OP].astype(np.uint8)),
            commit_ts=number_of(found, COMMIT_TS),
            commit_ms=number_of(found, COMMIT_MS),
            schema_version=number_of(found, SCHEMA_VERSION) if self.row.numbers > SCHEMA_VERSION else None,
        )

    def rows(self, messages: Messages, options: Any) -> BulkRows:
        """The rows that have this form."""
        texts, message = bodies(messages.values, options.compression)
        data, bounds = joined(texts)
        source, _ = scan_texts(data, bounds[:-1], bounds[1:], self.source, NO_NAMES)
        has_version = self.row.numbers > SCHEMA_VERSION
        version = source.numbers[:, SCHEMA_VERSION] if has_version else None
        left = np.ones(len(messages), np.bool_)
        tables = []
        for (schema, table), of_table in by_table(data, source.strings, version):
            texts_of_table = source.rows[of_table]
            starts, ends = bounds[texts_of_table], bounds[texts_of_table + 1]
            for columns, every in alike(data, starts, ends, self.row, self.columns):
                found = self._sound(every, options)
                if not len(found):
                    continue
                line = message[texts_of_table[found.rows]]
                left[line] = False
                raw = with_structs(raw_rows(data, found, columns, line), data, found, TIME_TYPE)
                tables.append(
                    TableRows(
                        schema=schema,
                        table=table,
                        schema_version=int(found.numbers[0, SCHEMA_VERSION]) if has_version else None,
                        rows=raw,
                        position=pa.array(np.zeros(len(found), np.int64)),
                        table_id=pa.array(found.numbers[:, TABLE_ID]) if self.row.numbers > TABLE_ID else None,
                    )
                )
        return BulkRows(tuple(tables), left)

    def _sound(self, found: ScannedTexts, options: Any) -> ScannedTexts:
        sound = self.is_sound(found, options)
        return found if sound.all() else found.take(np.flatnonzero(sound))
