"""An inspection describes a stream, and says what it cannot show."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets.config import load
from ticdc_assets.sources.inspection.settings import config_lines
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.sources.inspection.inspected import ALL, place, seen


def written(workload: Workload, folder: Path) -> Any:
    """The changefeed as the fixture's own configuration has it, loaded."""
    feed = {
        "sink_uri": workload.variant["sink_uri"],
        "config": workload.variant["config"],
        "source": {"storage" if place(workload).is_dir() else "capture": str(place(workload))},
    }
    if (workload.root / "registry.json").exists():
        feed["schema_registry"] = {"file": str(workload.root / "registry.json")}
    return loaded(yaml.safe_dump({"changefeeds": {"written": feed}}), folder / "written.yaml")


def loaded(text: str, file: Path) -> Any:
    file.write_text(text)
    return load(file, {}).changefeeds[0]


@pytest.mark.parametrize("workload", ALL, ids=lambda w: w.name)
def test_the_suggested_config_reads_the_stream_as_its_own_config_does(workload: Workload, tmp_path: Path):
    found = seen(workload)

    suggested = loaded(config_lines(found), tmp_path / "suggested.yaml")
    wanted = written(workload, tmp_path)

    for name in (
        "protocol",
        "content.enable_tidb_extension",
        "has_commit_ts",
        "has_watermark",
        "simple.encoding_format",
    ):
        assert (name, attrgetter(name)(suggested.sink)) == (name, attrgetter(name)(wanted.sink))
    assert suggested.sink.large_message.compression == wanted.sink.large_message.compression
    assert suggested.sink.large_message.option == wanted.sink.large_message.option
    assert suggested.sink.large_message.claim_check_raw_value == wanted.sink.large_message.claim_check_raw_value
    assert suggested.sink.content.integrity_check_level == wanted.sink.content.integrity_check_level
    assert suggested.sink.open.output_old_value == wanted.sink.open.output_old_value
    assert suggested.source == wanted.source
    if place(workload).is_dir():
        assert suggested.sink.layout.date_separator == wanted.sink.layout.date_separator
        assert suggested.sink.layout.file_index_width == wanted.sink.layout.file_index_width
    if suggested.sink.protocol == "csv":
        assert _but_line_ends(suggested.sink.csv) == _but_line_ends(wanted.sink.csv)


def _but_line_ends(csv: Any) -> dict[str, Any]:
    return {name: getattr(csv, name) for name in csv.__slots__ if name != "terminator"}


def test_the_zone_of_timestamps_is_reported_where_the_stream_has_it():
    for workload in workloads("simple-json", "seed1"):
        assert seen(workload).detected.settings.get("time_zone", workload.time_zone) == workload.time_zone


@pytest.mark.parametrize("workload", ALL, ids=lambda w: w.name)
def test_what_the_stream_cannot_tell_is_noted_and_nothing_else(workload: Workload, tmp_path: Path):
    sink = written(workload, tmp_path).sink
    notes = " ".join(seen(workload).notes)

    assert ("no commit_ts" in notes) == (not sink.has_commit_ts and sink.protocol != "avro")
    assert ("no watermarks" in notes) == (not sink.has_watermark and sink.protocol == "debezium")
    assert ("no statements" in notes) == (sink.protocol == "avro" and not sink.avro.enable_watermark)
