"""Captures that are replaced while a run reads them: nothing is published of messages that the run has not scanned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.deliveries.wires import OpenProtocol
from ticdc_assets_tests.pipeline.small_streams import SmallStream, ids, states
from ticdc_assets_tests.pipeline.stream.offsets.rewritten_capture import A, rows

Replace = Callable[[list[bytes]], list[bytes]]


def sent(folder: Path, binary: bool) -> tuple[SmallStream, Path]:
    stream = SmallStream(folder, OpenProtocol(), binary=binary)
    stream.create(0, A)
    rows(stream, range(1, 11))
    stream.watermark(20)
    return stream, next(stream.capture.iterdir())


REPLACED: dict[str, Replace] = {
    "emptied": lambda lines: [],
    "cut": lambda lines: lines[:6],
    "rotated": lambda lines: lines[6:],
    "with one more at the beginning": lambda lines: [lines[3], *lines],
    "with one more in the middle": lambda lines: [*lines[:6], lines[3], *lines[6:]],
    "of others": lambda lines: [lines[0], *reversed(lines[1:])],
}


@pytest.mark.parametrize("replaced", REPLACED.values(), ids=REPLACED.keys())
def test_a_run_whose_capture_is_replaced_publishes_nothing(replaced: Replace, tmp_path: Path):
    stream, path = sent(tmp_path, binary=False)
    lake = stream.lake()
    run = run_of(lake.lake)
    pending = run.scan()
    whole = path.read_bytes()
    path.write_bytes(b"".join(replaced(whole.splitlines(keepends=True))))

    with pytest.raises(SourceError):
        run.publish_changelogs(pending, LocalWorkers())

    assert lake.lake.control.newest() is None
    path.write_bytes(whole)
    lake.publish()
    assert ids(lake) == {"a": list(range(1, 11))}


@pytest.mark.parametrize("left", [0, 100])
def test_a_run_whose_capture_is_cut_publishes_nothing(left: int, tmp_path: Path):
    stream, path = sent(tmp_path, binary=True)
    lake = stream.lake()
    run = run_of(lake.lake)
    pending = run.scan()
    path.write_bytes(path.read_bytes()[:left])

    with pytest.raises(SourceError):
        run.publish_changelogs(pending, LocalWorkers())

    assert lake.lake.control.newest() is None


@pytest.mark.parametrize("binary", [False, True])
def test_a_capture_may_grow_while_a_run_reads_it(binary: bool, tmp_path: Path):
    stream, _ = sent(tmp_path, binary)
    lake = stream.lake()
    run = run_of(lake.lake)
    pending = run.scan()
    stream.put(21, A, 12)
    stream.watermark(30)

    run.publish_changelogs(pending, LocalWorkers())

    assert states(lake) == {"a": "live"}
    assert ids(lake) == {"a": list(range(1, 11))}
    lake.publish()
    assert ids(lake) == {"a": [*range(1, 11), 12]}
