"""One workload through every protocol and both kinds of sink: the changelogs are equal, cell by cell."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.changelog.compared import difference
from ticdc_assets_tests.pipeline.gaps import AS_SENT, Log, as_read, as_sent
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.stream.conditions import gaps_of
from ticdc_assets_tests.pipeline.upstreams import is_cut, upstream_of
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.protocols.limitations import Limitation


def pairs() -> list[tuple[Workload, Workload]]:
    """Every variant of a log with its reference: the first variant whose stream lacks nothing."""
    logs: dict[Path, list[Workload]] = defaultdict(list)
    for workload in workloads(seed="seed1"):
        logs[workload.log].append(workload)
    found = []
    for variants in logs.values():
        whole = (w for w in variants if w.name.startswith(("canal-json-tidb", "simple-json")) and not is_cut(w))
        first = next(whole, None)
        found += [(first, other) for other in variants if first is not None and other is not first]
    return found


@cache
def changes_of(workload: Workload, folder: Path) -> tuple[Counter[Change], tuple[Limitation, ...]]:
    with upstream_of(workload) as settings:
        lake = FeedLake(workload, folder / workload.root.parent.name, **settings)
        lake.publish()
    return lake.changes(), gaps_of(lake.lake.changefeed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("across")


def cases() -> Iterator[ParameterSet]:
    """The log that most variants carry is compared for one of each kind; each equals what happened in other tests."""
    for first, other in pairs():
        name = other.root.parent.name
        often = not other.log.name.endswith("-events") or name in ("open", "simple-avro", "storage-csv", "debezium")
        marks = () if often else pytest.mark.matrix
        yield pytest.param(first, other, id=f"{first.root.parent.name}-{name}", marks=marks)


@pytest.mark.parametrize(("first", "other"), list(cases()))
def test_two_streams_of_one_log_give_one_changelog(first: Workload, other: Workload, folder: Path):
    whole, nothing = changes_of(first, folder)
    changes, gaps = changes_of(other, folder)
    log = Log(other)

    assert not {gap.id for gap in nothing} & AS_SENT.keys()
    wanted = as_sent(whole.elements(), gaps, log)
    found = as_read(changes, wanted, gaps, log)
    assert found == wanted, difference(found, wanted)
