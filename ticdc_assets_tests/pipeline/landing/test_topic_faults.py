"""A fault of one topic on a real broker: the tables of the other topics are published, and the run reports the
fault."""

from __future__ import annotations

import pytest

from ticdc_assets.commands.process.pending import held
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing.land import LandingReport, land
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.landing.faulty_topics import TOPICS, A, B
from ticdc_assets_tests.pipeline.landing.faulty_topics import stream as stream
from ticdc_assets_tests.pipeline.small_streams import at, ids, states, tso

pytestmark = pytest.mark.services


def landing(lake: FeedLake) -> LandingReport:
    return land(Lake(lake.config, lake.lake.changefeed), LocalWorkers())


def test_the_other_topics_are_published_while_one_has_a_fault_and_its_tables_catch_up_afterwards(stream):
    lake = stream.lake()
    lake.publish()
    stream.put(4, A, 2, topic="s_a")
    stream.put(5, A, 3, topic="s_a")
    stream.lose_next("s_a", 4)
    stream.put(5, B, 2, topic="s_b")
    stream.watermark(6, *TOPICS)
    lake.publish()

    assert ids(lake) == {"a": [1], "b": [1, 2]}
    assert (states(lake), tso(lake)) == ({"a": "stopped", "b": "live"}, at(6))
    [of_topic, of_table] = held(lake.lake, lake.lake.control.newest())
    assert "s_a[0]: expected offset 3, found offsets from 4 on: retention has removed 1 offset" in of_topic
    assert "s.a" in of_table
    assert "retention has removed 1 offset" in of_table

    snapshots = lake.snapshots()
    assert lake.publish() is None
    assert lake.snapshots() == snapshots

    stream.put(7, B, 3, topic="s_b")
    stream.watermark(8, "feed", "s_b")
    lake.publish()
    assert ids(lake) == {"a": [1], "b": [1, 2, 3]}
    assert tso(lake) == at(8)

    given_up = stream.lake(skip_offsets=["s_a[0]@3"])
    given_up.publish()
    assert ids(given_up) == {"a": [1], "b": [1, 2, 3]}  # the topic is at tick 6, the record at tick 8
    assert states(given_up) == {"a": "waiting", "b": "live"}

    stream.put(7, A, 4, topic="s_a")  # below the recorded TSO, and not late: its table was not there yet
    stream.watermark(9, *TOPICS)
    report = given_up.publish()
    assert report is not None
    assert report.late_rows == {}
    assert ids(given_up) == {"a": [1, 3, 4], "b": [1, 2, 3]}
    assert (states(given_up), tso(given_up)) == ({"a": "live", "b": "live"}, at(9))
    assert list(held(given_up.lake, given_up.lake.control.newest())) == []
    assert given_up.publish() is None


def test_a_fault_of_the_topic_with_statements_of_all_tables_holds_them_at_its_last_watermark(stream):
    lake = stream.lake()
    lake.publish()
    stream.watermark(5, "feed")
    landing(lake)
    stream.watermark(6, "feed")
    stream.watermark(7, "feed")
    stream.lose_next("feed", 3)
    stream.put(4, B, 2, topic="s_b")
    stream.put(6, B, 3, topic="s_b")
    stream.watermark(7, "s_a", "s_b")
    assert list(landing(lake).faults) == ["feed"]

    lake.publish()
    assert ids(lake) == {"a": [1], "b": [1, 2]}
    assert (states(lake), tso(lake)) == ({"a": "live", "b": "live"}, at(5))

    lake.publish()
    assert ids(lake) == {"a": [1], "b": [1, 2]}
    assert (states(lake), tso(lake)) == ({"a": "stopped", "b": "stopped"}, at(5))

    given_up = stream.lake(skip_offsets=["feed[0]@2"])
    report = given_up.publish()
    assert report is not None
    assert report.late_rows == {}
    assert ids(given_up) == {"a": [1], "b": [1, 2, 3]}
    assert (states(given_up), tso(given_up)) == ({"a": "live", "b": "live"}, at(7))
