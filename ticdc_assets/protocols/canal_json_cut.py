"""The values of Canal-JSON row changes, without the types before them: half of the bytes, and nobody reads them.

Enter texts that match `canal_json_form.row_form`. Their types are then objects of codes and names, so that what is
looked for here can be nothing else: a quote inside a string has a backslash before it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ticdc_assets.protocols.joined_texts import QUOTE, Bytes, Ints, cut, joined

_CLOSE, _COMMA, _O = b"},o"


def values_only(texts: pa.Array) -> pa.Array:
    """Of each text what begins with `"old":`."""
    data, offsets = joined(texts)
    values = _begins_of_values(data)
    assert len(values) == len(texts)
    return cut(texts, values + 1 - offsets[:-1], np.diff(offsets))


def _begins_of_values(data: Bytes) -> Ints:
    """Of the names after an object, only `"old"` starts with an o."""
    commas = np.flatnonzero(data[:-3] == _CLOSE) + 1
    found: Ints = commas[(data[commas] == _COMMA) & (data[commas + 1] == QUOTE) & (data[commas + 2] == _O)]
    return found
