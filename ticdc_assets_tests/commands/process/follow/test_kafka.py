"""`run --follow` of topics on a real broker: what is printed of a topic with a fault, and a process that goes on while
the producer writes, partitions are added and the broker restarts."""

from __future__ import annotations

from typing import Any

import pytest

from ticdc_assets.cli import main
from ticdc_assets.commands.process.follow.metrics import Metrics
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.process.follow.test_loop import Scripted, lines_of
from ticdc_assets_tests.commands.process.follow.test_loop import no_pause as no_pause
from ticdc_assets_tests.pipeline.landing.test_kafka_runs import sent as sent
from ticdc_assets_tests.pipeline.landing.test_topic_faults import SentStream
from ticdc_assets_tests.pipeline.landing.test_topic_faults import stream as stream
from ticdc_assets_tests.services.kafka import KafkaServer

pytestmark = pytest.mark.services


def test_a_fault_of_a_topic_is_printed_once_also_while_no_table_has_news(
    kafka: KafkaServer, stream: SentStream, capfd: Any, monkeypatch: pytest.MonkeyPatch, no_pause: None
):
    shown: list[str] = []
    made: list[Metrics] = []
    true_init = Metrics.__init__
    monkeypatch.setattr(Metrics, "__init__", lambda self, feeds: made.append(self) or true_init(self, feeds))
    feed = stream.lake()
    Scripted(
        monkeypatch, lambda: kafka.remove_topic("s_a"), lambda: None, lambda: shown.append(made[0].text())
    )  # fmt: skip

    assert main(["run", "--follow", "--json", "--config", str(feed.config.path)]) == 0
    kafka.make_topic("s_a")  # the fixture removes it

    printed = capfd.readouterr()
    run, *others = lines_of(printed.out)
    assert (run["rows"], run["tables"]) == (2, 2)
    assert [(line["topic"], "run_id" in line) for line in others if "topic" in line] == [("s_a", False)]
    assert "expected the topic s_a, found no such topic" in others[0]["error"]
    [of_topic] = [line for line in printed.err.splitlines() if line.startswith("feed: ")]
    assert of_topic == f"feed: {others[0]['error']}"
    assert 'ticdc_assets_topics_with_faults{changefeed="feed"} 1' in shown[0].splitlines()
    assert 'ticdc_assets_offsets_left{changefeed="feed"} 0' in shown[0].splitlines()
    assert 'ticdc_assets_messages_total{changefeed="feed"} 7' in shown[0].splitlines()
