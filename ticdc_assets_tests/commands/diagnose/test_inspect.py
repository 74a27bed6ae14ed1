"""The output of `ticdc-assets inspect`, as text and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets import spark
from ticdc_assets.cli import main
from ticdc_assets_tests.fixtures import CORPUS, FIXTURES, Workload, workloads

ROOT = FIXTURES or CORPUS / "fixtures"
OPEN = ROOT / "open" / "seed1"
CSV = ROOT / "storage-csv" / "seed1" / "data"


def test_inspect_reports_protocol_rows_and_watermark(capfd: Any):
    assert main(["inspect", str(OPEN)]) == 0

    printed = capfd.readouterr().out
    assert f"{OPEN}: Open Protocol, 261 messages of 1 topic and 3 partitions." in printed
    assert "rows:     404 (229 inserts, 88 updates, 87 deletes) of 10 tables" in printed
    assert "complete: up to 459802261460090884 (2025-08-01 00:00:29 UTC)" in printed
    assert "No fault was found." in printed
    assert printed.rstrip().endswith(f"capture: {OPEN}")
    assert not spark.is_running()


def test_json_holds_everything_for_programs(capfd: Any):
    assert main(["inspect", str(CSV), "--json"]) == 0

    printed = json.loads(capfd.readouterr().out)
    assert (printed["kind"], printed["protocol"], printed["whole"]) == ("storage", "csv", True)
    assert printed["rows"] == {"insert": 229, "update": 88, "delete": 87, "insert_or_update": 0}
    assert printed["options"]["date-separator"] == "day"
    assert {table["table"] for table in printed["tables"]} >= {"all_types", "odd-names", "codes_r2"}
    assert printed["problems"] == []
    assert "csv:" in printed["config"]


def test_a_fault_is_reported_with_its_place_and_ends_in_exit_code_1(tmp_path: Path, capfd: Any):
    lines = (OPEN / "messages.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "messages.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:30])

    assert main(["inspect", str(tmp_path)]) == 1

    printed = capfd.readouterr().out
    assert "Faults:" in printed
    assert f"- {tmp_path}/messages.jsonl:261: expected a JSON object, found bytes that are not JSON" in printed


def test_inspect_of_a_missing_place_prints_one_sentence(tmp_path: Path, capfd: Any):
    assert main(["inspect", str(tmp_path / "absent")]) == 1

    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1] == (
        f"{tmp_path / 'absent'}: expected a file or folder, found nothing of that name. Check the path."
    )


@pytest.mark.parametrize(
    "workload", [w for w in workloads("", "seed1") if "events" in str(w.log)], ids=lambda w: w.name
)
def test_no_value_of_a_row_is_printed(workload: Workload, capfd: Any):
    data = workload.root / "data"
    main(["inspect", str(data if data.is_dir() else workload.root)])
    main(["inspect", "--json", str(data if data.is_dir() else workload.root)])

    printed = capfd.readouterr().out
    values = [v for e in workload.events if e["kind"] == "dml" for v in (e.get("row") or {}).values()]
    texts = {v for v in values if isinstance(v, str) and len(v) > 8 and not v.isdigit()}
    assert len(texts) > 100
    assert [text for text in texts if text in printed] == []


def test_inspect_starts_quickly_and_loads_no_engine():
    """The first command of a user must not wait for imports of Spark, Dagster or Iceberg."""
    script = (
        "import sys; from ticdc_assets.cli import main; main(sys.argv[1:]); "
        "print([m for m in ('pyspark', 'dagster', 'pyiceberg') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "inspect", str(OPEN)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    )

    assert done.stdout.splitlines()[-1] == "[]"


def test_credentials_of_a_uri_are_not_shown(capfd: Any):
    assert main(["inspect", f"file://{CSV}?access-key=AKIA&secret-access-key=hush"]) == 0

    printed = capfd.readouterr()
    assert "a storage sink's folder, CSV" in printed.out
    assert "hush" not in printed.out + printed.err
    assert "AKIA" not in printed.out + printed.err
