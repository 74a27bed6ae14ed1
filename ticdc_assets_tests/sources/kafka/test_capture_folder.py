"""A folder of captured messages after a capture that ended early: whole, and each message once after the next one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.capture_folder import (
    MESSAGES,
    STATE,
    CaptureFolder,
    CaptureProgress,
    CaptureState,
    write_part,
)
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange
from ticdc_assets_tests.fixtures import read_jsonl

PARTITION = KafkaPartition("feed", 0)
APPEND = """
import os, sys
from pathlib import Path
from ticdc_assets_tests.sources.kafka import test_capture_folder as tests

fsync, left = os.fsync, [int(sys.argv[2])]

def ending(number):
    fsync(number)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), int(sys.argv[3]))

os.fsync = ending
tests.append(Path(sys.argv[1]), *map(int, sys.argv[4:]))
"""
"""Appends messages and ends by a signal once so many files are on disk."""


def append(path: Path, first: int, end: int) -> None:
    folder = CaptureFolder(path)
    with folder.locked():
        folder.remove_leftovers()
        state = folder.state()
        wanted = OffsetRange(PARTITION, first, end)
        messages = [Message("feed", 0, offset, None, b"value", 1_700_000_000_000) for offset in range(first, end)]
        with folder.scratch() as scratch:
            _, mark = write_part(scratch / "0", wanted, messages)
            folder.append(state, {PARTITION: (scratch / "0", CaptureProgress(end, mark))})


def ended_by(number: signal.Signals, files: int, path: Path, first: int, end: int) -> None:
    arguments = [str(path), str(files), str(int(number)), str(first), str(end)]
    done = subprocess.run([sys.executable, "-c", APPEND, *arguments], capture_output=True, check=False, timeout=60)
    assert done.returncode == -number, done.stderr.decode()


def next_offset(path: Path) -> int:
    return CaptureFolder(path).state().next_offsets.get(PARTITION, 0)


@pytest.mark.parametrize("files", [1, 2, 3])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_first_capture_that_ended_early_is_continued(number: signal.Signals, files: int, tmp_path: Path):
    ended_by(number, files, tmp_path / "to", 0, 5)

    if number is signal.SIGINT:
        assert left_in(tmp_path / "to") <= {MESSAGES, STATE, f".{STATE}.lock"}
        assert recorded(tmp_path / "to").size_bytes == size_of(tmp_path / "to")
    append(tmp_path / "to", next_offset(tmp_path / "to"), 7)

    assert [line["offset"] for line in read_jsonl(tmp_path / "to" / MESSAGES)] == list(range(7))


@pytest.mark.parametrize("files", [1, 2])
def test_a_later_capture_that_was_interrupted_leaves_the_messages_of_the_earlier_ones(files: int, tmp_path: Path):
    append(tmp_path / "to", 0, 5)
    before = (tmp_path / "to" / MESSAGES).read_bytes()

    ended_by(signal.SIGINT, files, tmp_path / "to", 5, 7)

    assert (tmp_path / "to" / MESSAGES).read_bytes() == before
    assert left_in(tmp_path / "to") == {MESSAGES, STATE, f".{STATE}.lock"}
    append(tmp_path / "to", next_offset(tmp_path / "to"), 7)
    assert [line["offset"] for line in read_jsonl(tmp_path / "to" / MESSAGES)] == list(range(7))


def left_in(path: Path) -> set[str]:
    return {file.name for file in path.iterdir()}


def recorded(path: Path) -> CaptureState:
    return CaptureFolder(path).state()


def size_of(path: Path) -> int:
    return (path / MESSAGES).stat().st_size if (path / MESSAGES).exists() else 0
