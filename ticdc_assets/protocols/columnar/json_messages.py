"""Bulk decoding of messages with one JSON text and one row each, with the grammar of a protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.message_rows import BulkRows, Messages, RowHeaders, TableRows, heads_of, rows_of
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
from ticdc_assets.protocols.formats.bodies import decompress
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.formats.json.template import JsonTemplate
from ticdc_assets.protocols.formats.json.texts import NO_NAMES, ScannedTexts, scan_texts
from ticdc_assets.protocols.formats.string_arrays import Ints, Mask, joined, not_utf8

IsSound = Callable[[ScannedTexts, Any], Mask]
BODY_BYTES_MAX: Final = 32 << 20
"""Larger messages are rare, and bulk decoding does not make them faster."""
BATCH_BYTES_MAX: Final = 512 << 20
"""The size limit of a batch after decompression; messages beyond it are left. Offsets fit 31 bits."""


def bodies(values: pa.Array, compression: Compression) -> tuple[pa.Array, Ints]:
    """The decompressed bodies that a bulk decoder can read, and the indices of their values: present, of bounded size,
    in UTF-8. All other messages are left to the reference decoder, which reports what is wrong with them."""
    fit = _sized(values)
    if compression is not Compression.NONE:
        values, fit = _decompressed(values, fit, compression)
    fit &= _begins_with_brace(values)
    chosen = np.flatnonzero(fit)
    texts = values if len(chosen) == len(values) else values.take(pa.array(chosen))
    bad = not_utf8(texts)
    return (texts, chosen) if bad is None else (texts.filter(pa.array(~bad)), chosen[~bad])


def _begins_with_brace(values: pa.Array) -> Mask:
    data, offsets = joined(values)
    if not len(data):
        return np.zeros(len(values), np.bool_)
    return np.asarray(data[np.minimum(offsets[:-1], len(data) - 1)] == ord("{"))


def _sized(values: pa.Array) -> Mask:
    sizes = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.asarray((sizes > 0) & (sizes <= BODY_BYTES_MAX) & (np.cumsum(sizes) <= BATCH_BYTES_MAX))


def _decompressed(values: pa.Array, fit: Mask, compression: Compression) -> tuple[pa.Array, Mask]:
    """The values decompressed; null if decompression fails or exceeds the limits."""
    plain: list[bytes | None] = [None] * len(values)
    room = BATCH_BYTES_MAX
    for number in np.flatnonzero(fit):
        try:
            body = decompress(values[number].as_py(), compression, "", min(room, BODY_BYTES_MAX))
        except DecodeError:
            continue
        room -= len(body)
        plain[number] = body
    array = pa.array(plain, pa.binary())
    return array, np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class RowGrammar:
    """The JSON form of a protocol's rows.

    row: a row with its values.
    head: a row without its values.
    source: the beginning of a row, up to the names and version of its table.
    columns: (parsed row) to the names of its columns.
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
        tables = []
        for (schema, table), of_table in by_table(data, source.strings, version):
            texts_of_table = source.rows[of_table]
            starts, ends = bounds[texts_of_table], bounds[texts_of_table + 1]
            for columns, every in alike(data, starts, ends, self.row, self.columns):
                found = self._sound(every, options)
                raw = raw_rows(data, found, columns, message[texts_of_table[found.rows]])
                tables.append(
                    TableRows(
                        schema=schema,
                        table=table,
                        schema_version=int(source.numbers[of_table[0], SCHEMA_VERSION]) if has_version else None,
                        rows=with_structs(raw, data, found, TIME_TYPE),
                        position=pa.array(np.zeros(len(found), np.int64)),
                        table_id=pa.array(found.numbers[:, TABLE_ID]) if self.row.numbers > TABLE_ID else None,
                    )
                )
        return rows_of(len(messages), tables)

    def _sound(self, found: ScannedTexts, options: Any) -> ScannedTexts:
        sound = self.is_sound(found, options)
        return found if sound.all() else found.take(np.flatnonzero(sound))
