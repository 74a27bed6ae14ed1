"""`run --follow` of topics on a real broker: the output for a topic with a fault, and a process that continues while
the producer writes and the broker restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from ticdc_assets.cli import main
from ticdc_assets.commands.process.follow.report import Metrics
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.process.follow.process import follower, scraped
from ticdc_assets_tests.commands.process.follow.scripted import Scripted, lines_of
from ticdc_assets_tests.commands.process.follow.scripted import no_pause as no_pause
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import expected_changes
from ticdc_assets_tests.pipeline.landing.faulty_topics import SentStream
from ticdc_assets_tests.pipeline.landing.faulty_topics import stream as stream
from ticdc_assets_tests.pipeline.landing.sent_streams import feed_of, last_ts
from ticdc_assets_tests.pipeline.landing.sent_streams import sent as sent
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
    show = lambda: shown.append(generate_latest(made[0]).decode())  # noqa: E731
    Scripted(monkeypatch, lambda: kafka.remove_topic("s_a"), lambda: None, show)

    assert main(["run", "--follow", "--json", "--config", str(feed.config.path)]) == 0
    kafka.make_topic("s_a")  # the fixture removes it

    printed = capfd.readouterr()
    run, *others = lines_of(printed.out)
    assert (run["rows"], run["tables"]) == (2, 2)
    assert [(line["topic"], "run_id" in line) for line in others if "topic" in line] == [("s_a", False)]
    assert "expected the topic s_a, found no such topic" in others[0]["error"]
    [of_topic] = [line for line in printed.err.splitlines() if line.startswith("feed: ")]
    assert of_topic == f"feed: {others[0]['error']}"
    assert 'ticdc_assets_topics_with_faults{changefeed="feed"} 1.0' in shown[0].splitlines()
    assert 'ticdc_assets_offsets_left{changefeed="feed"} 0.0' in shown[0].splitlines()
    assert 'ticdc_assets_messages_total{changefeed="feed"} 7.0' in shown[0].splitlines()


@pytest.mark.spark
@pytest.mark.matrix
def test_topics_are_followed_to_the_truth_while_the_producer_writes_and_the_broker_restarts(
    kafka: KafkaServer, sent: Any, tmp_path: Path
):
    workload = workloads("canal-json-tidb", "seed1")[0]
    producer = sent(workload)
    feed = feed_of(workload, kafka, tmp_path / "lake")

    with follower(feed.config.path, "--interval", "0.5", "--metrics", "0") as process:
        url = process.until_note("metrics: ").split()[-1]
        producer.send(0, 0.5)
        process.until(lambda line: line.get("rows", 0) > 0)
        kafka.stop()
        process.until(lambda line: "error" in line)
        kafka.start()
        producer.send(0.5, 1)
        last = process.until(lambda line: line.get("tso") == str(last_ts(workload)))[-1]
        metrics = scraped(url)
        code = process.end()

    assert (code, last["complete"], last["held"]) == (0, True, [])
    assert list(last["seconds"]) == ["land", "scan", "changelogs", "mirrors"]
    assert f'ticdc_assets_messages_total{{changefeed="feed"}} {len(producer.messages)}.0' in metrics
    assert feed.differences(last_ts(workload)) == []
    assert feed.changes() == expected_changes(workload, old_values=True)
