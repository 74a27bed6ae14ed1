"""A soak of `run --follow`: `python -m ticdc_assets_tests.bench.soak OUT --minutes 30`.

A stream of 2,000 changes a second over 50 tables is written while a process follows it. In turns the process and its
JVM are killed, and a process that was killed is started again. At the end all mirrors are compared with the rows that
the stream has. OUT gets `curve.csv` (lag, memory and files over time), the same as `curves.svg`, and `result.json`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import statistics
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from ticdc_assets.config import load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets_tests.bench.clock import family, family_cpu_s
from ticdc_assets_tests.bench.soak.picture import picture
from ticdc_assets_tests.bench.soak.stream import FLUSH_S, Stream
from ticdc_assets_tests.bench.soak.truth import differences
from ticdc_assets_tests.commands.process.follow.process import Follower, follower

STATEMENT_EVERY = 4
"""Flushes from one statement to the next."""
CATCH_UP_S_MAX = 600


class Soak:
    """One process that follows after the other, and when each flush was visible in the mirrors."""

    def __init__(self, config: Path, interval_s: float) -> None:
        self._config = config
        self._options = ("--interval", str(interval_s))
        self._began_s = time.time()
        self._opened = ExitStack()
        self._process: Follower | None = None
        self._flushed: dict[int, float] = {}
        self.fresh_s: list[float] = []
        self.curve: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.kills = 0

    def start(self) -> None:
        self._process = self._opened.enter_context(follower(self._config, *self._options))

    def flushed(self, checkpoint: int) -> None:
        self._flushed[checkpoint] = time.time()

    def kill(self, only_jvm: bool) -> None:
        """Kill the JVM, which the process replaces, or the process itself, and start another."""
        assert self._process is not None
        jvm = [pid for pid in self._process.children if "java" in Path(f"/proc/{pid}/cmdline").read_text()]
        if only_jvm and jvm:
            os.kill(jvm[0], signal.SIGKILL)
        else:
            self._opened.close()  # kills it
            self.start()
        self.kills += 1

    def read(self) -> None:
        """Take in what the process has printed."""
        assert self._process is not None
        for line in self._process.printed():
            if "error" in line:
                self.errors.append(line["error"])
            elif line["complete"]:
                self._seen(line)

    def _seen(self, line: dict[str, Any]) -> None:
        now_s = time.time()
        for checkpoint in [flushed for flushed in self._flushed if flushed <= int(line["tso"])]:
            self.fresh_s.append(now_s - self._flushed.pop(checkpoint))
        files, memory_mb = line["files"] or {}, self._memory_mb()
        assert self._process is not None
        self.curve.append(
            {
                "second": round(now_s - self._began_s, 1),
                "lag_s": line["lag_ms"] / 1000,
                "run_s": round(sum(line["seconds"].values()), 3),
                "rows": line["rows"],
                **memory_mb,
                "cpu_s": family_cpu_s(self._process.process.pid),
                "data_files": files.get("data"),
                "delete_files": files.get("delete"),
            }
        )

    def _memory_mb(self) -> dict[str, float]:
        assert self._process is not None
        sizes = {pid: _resident_mb(pid) for pid in family(self._process.process.pid)}
        own = sizes.get(self._process.process.pid, 0.0)
        return {"driver_mb": round(own), "children_mb": round(sum(sizes.values()) - own)}

    @property
    def is_behind(self) -> bool:
        return bool(self._flushed)

    def end(self) -> int:
        assert self._process is not None
        code = self._process.end()
        self._opened.close()
        return code


def _resident_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    except OSError:
        return 0.0


def config_in(folder: Path) -> Path:
    path = folder / "changefeeds.yaml"
    feed = {
        "sink_uri": "file:///x?protocol=csv",
        "config": {"sink": {"date-separator": "none", "csv": {"include-commit-ts": True}}},
        "source": {"storage": str(folder / "bucket")},
    }
    path.write_text(yaml.safe_dump({"spark": {"master": "local[2]"}, "changefeeds": {"soak": feed}}))
    return path


def main() -> int:
    """1 where a mirror differs from the stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--rate", type=int, default=2_000, help="changes a second")
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--kill-every", type=float, default=90, metavar="S", help="0 for never")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        config = config_in(Path(scratch))
        stream = Stream(Path(scratch) / "bucket", asked.tables)
        soak = Soak(config, asked.interval)
        soak.start()
        began_s = time.time()
        _write(soak, stream, asked)
        code = soak.end()
        loaded = load(config, {})
        wrong = differences(Lake(loaded, loaded.changefeed("soak")), stream)
        result = _result(soak, stream, code, wrong, time.time() - began_s) | {"asked": {**vars(asked), "out": None}}
    (asked.out / "result.json").write_text(json.dumps(result, indent=1))
    with (asked.out / "curve.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(soak.curve[0]))
        writer.writeheader()
        writer.writerows(soak.curve)
    (asked.out / "curves.svg").write_text(picture(soak.curve))
    print(json.dumps(result, indent=1))
    return 1 if wrong or code else 0


def _write(soak: Soak, stream: Stream, asked: argparse.Namespace) -> None:
    """Flush every FLUSH_S seconds, kill between flushes, then wait until all is visible."""
    began_s, flushes, kills = time.time(), 0, 0
    while (now_s := time.time()) < began_s + asked.minutes * 60:
        soak.flushed(stream.flush(round(asked.rate * FLUSH_S), flushes % STATEMENT_EVERY == STATEMENT_EVERY - 1))
        flushes += 1
        if asked.kill_every and now_s - began_s > (kills + 1) * asked.kill_every:
            kills += 1
            soak.kill(only_jvm=kills % 2 == 1)
        while time.time() < began_s + flushes * FLUSH_S:
            soak.read()
            time.sleep(0.05)
    over_s = time.time() + CATCH_UP_S_MAX
    while soak.is_behind and time.time() < over_s:
        soak.read()
        time.sleep(0.05)


def _result(soak: Soak, stream: Stream, code: int, wrong: list[str], seconds: float) -> dict[str, Any]:
    fresh = sorted(soak.fresh_s)
    return {
        "seconds": round(seconds),
        "changes": stream.changes,
        "statements": stream.statements,
        "kills": soak.kills,
        "runs": len(soak.curve),
        "exit_code": code,
        "tables_that_differ": wrong,
        "fresh_median_s": round(statistics.median(fresh), 2),
        "fresh_p99_s": round(fresh[min(len(fresh) - 1, int(len(fresh) * 0.99))], 2),
        "run_median_s": round(statistics.median(point["run_s"] for point in soak.curve), 2),
        "driver_mb_max": max(point["driver_mb"] for point in soak.curve),
        "children_mb_max": max(point["children_mb"] for point in soak.curve),
        "cores_used": _cores_used(soak.curve),
        "files_max": max((p["data_files"] or 0) + (p["delete_files"] or 0) for p in soak.curve),
        "faults": soak.errors,
        "load": os.getloadavg(),
        "cores": os.cpu_count(),
    }


def _cores_used(curve: list[dict[str, Any]]) -> float:
    """Processor seconds of a second, of the process that follows and all that it starts, between its runs."""
    pairs = [(old, new) for old, new in pairwise(curve) if new["cpu_s"] >= old["cpu_s"]]  # a killed one begins anew
    seconds = sum(new["second"] - old["second"] for old, new in pairs)
    return round(sum(new["cpu_s"] - old["cpu_s"] for old, new in pairs) / seconds, 2) if seconds else 0.0


if __name__ == "__main__":
    raise SystemExit(main())
