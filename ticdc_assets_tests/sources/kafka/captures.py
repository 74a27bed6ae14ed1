"""Captures of topics of a real Kafka broker, as the command line makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets.cli import main
from ticdc_assets_tests.fixtures import read_jsonl
from ticdc_assets_tests.services.jars import missing_tools

T0 = 1_700_000_000_000
MISSING = missing_tools("java", "mvn", "openssl")
"""What this machine lacks to run a broker with TLS."""


def numbered(topic: str, *counts: int, text: str = "m") -> list[dict[str, Any]]:
    """So many messages for each partition of a topic."""
    return [
        {
            "topic": topic,
            "partition": p,
            "key": None,
            "value": f"{text}{p}-{n}".encode(),
            "ts_ms": 1_700_000_000_000 + n,
        }
        for p, count in enumerate(counts)
        for n in range(count)
    ]


class Capture:
    """A config with a Kafka source and the folder it is captured into."""

    def __init__(self, folder: Path, brokers: str, topic: str, **kafka: Any) -> None:
        self.folder, self.to = folder, folder / "captured"
        self.config = folder / "changefeeds.yaml"
        source = {"kafka": {"brokers": brokers, "topics": [topic], **kafka}}
        uri, skip_offsets = f"kafka://h:9092/{topic}?protocol=open-protocol", source["kafka"].pop("skip_offsets", [])
        feed = {"sink_uri": uri, "source": source, "skip_offsets": skip_offsets}
        self.config.write_text(yaml.safe_dump({"changefeeds": {"shop": feed}}))

    def run(self, *arguments: str) -> int:
        return main(["capture", "--config", str(self.config), "--to", str(self.to), *arguments])

    def lines(self) -> list[dict[str, Any]]:
        return list(read_jsonl(self.to / "messages.jsonl"))

    def offsets(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for line in self.lines():
            found.setdefault(line["partition"], []).append(line["offset"])
        return found


def fault(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]
