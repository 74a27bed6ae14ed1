"""Lakes of every format in `corpus/lakes/`.

    python -m ticdc_assets_tests.frozen_lake

writes the file of today's format: the columns of control tables and the properties of tables.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pyarrow as pa

import ticdc_assets
from ticdc_assets.tables import messages
from ticdc_assets.tables.control import records
from ticdc_assets.tables.lake_format import FORMAT
from ticdc_assets_tests.fixtures import CORPUS

LAKES: Final = CORPUS / "lakes"


def description() -> str:
    """What a release and a later one must understand alike: columns of control tables, and properties of tables."""
    found = {
        name.lower(): [f"{field.name}: {field.type}" for field in schema]
        for name, schema in vars(records).items()
        if isinstance(schema, pa.Schema)
    }
    found["messages"] = [f"{name}: {type_}" for name, type_ in messages._COLUMNS.items()]
    code = "".join(path.read_text() for path in Path(ticdc_assets.__file__).parent.rglob("*.py"))
    found["properties"] = sorted({*re.findall(r'"(ticdc\.[a-z.-]+)"', code)})
    return "".join(f"{name}\n" + "".join(f"  {line}\n" for line in lines) for name, lines in sorted(found.items()))


def main() -> None:
    (LAKES / f"format_{FORMAT}.txt").write_text(description())


if __name__ == "__main__":
    main()
