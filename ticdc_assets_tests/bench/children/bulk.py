"""Captured messages to changelogs: the bulk form of each protocol against its reference, in the same pipeline.

In a child, on one thread. The changelogs of both forms are compared before a figure is shown.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.sources.capture import messages
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.bench import ours
from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import Spent, timed
from ticdc_assets_tests.bench.streams.captures import record
from ticdc_assets_tests.bench.streams.recorded import FORMS, Form


def compare(scratch: Path, form: str, source: str, per_partition: int) -> dict[str, Any]:
    """Rows, and what each form took for them: the quicker of two runs of the bulk form, one of the reference."""
    stream = FORMS[form]
    capture = cut(Path(source), scratch / "capture", per_partition)
    bulk_spent, bulk = min((_run(stream, capture, scratch / f"bulk{n}") for n in range(2)), key=lambda r: r[0].wall_s)
    protocol = str(ours.config_of(stream, capture, scratch / "name").changefeeds[0].sink.protocol)
    REGISTRY[protocol] = replace(REGISTRY[protocol], bulk=None)
    reference_spent, reference = _run(stream, capture, scratch / "reference")
    if digest(bulk) != digest(reference):
        raise AssertionError(f"{form}: the two forms do not come to the same rows")
    return {"rows": len(bulk), "bulk": bulk_spent.as_dict(), "reference": reference_spent.as_dict()}


def cut(capture: Path, folder: Path, count: int) -> Path:
    """The first messages of a capture's every partition."""
    folder.mkdir(parents=True)
    for file in capture.iterdir():
        if file.suffix == ".bin":
            body = b"".join(record(m.ts_ms, m.key, m.value) for m in islice(messages(file), count))
            (folder / file.name).write_bytes(body)
        elif file.name == "registry.json":
            (folder / file.name).write_bytes(file.read_bytes())
    return folder


def _run(form: Form, capture: Path, lake: Path) -> tuple[Spent, pa.Table]:
    spent, run = timed(lambda: ours.run(form, capture, lake, LocalWorkers(), with_mirrors=False))
    newest = run.lake.control.newest()
    assert newest is not None
    tables = [t.changelog for t in newest.tables if t.changelog is not None]
    rows = [run.lake.catalog.load_table(tuple(identifier)).scan().to_arrow() for identifier in tables]
    return spent, pa.concat_tables(rows, promote_options="permissive")


def digest(rows: pa.Table) -> list[int]:
    """Sums that no two different tables are likely to share, whatever the order of rows."""
    text = pa.array([repr(row) for row in rows.to_pylist()])
    return [len(rows), pc.sum(pc.binary_length(text)).as_py() or 0, sum(hash(t) for t in text.to_pylist())]


if __name__ == "__main__":
    serve(compare)
