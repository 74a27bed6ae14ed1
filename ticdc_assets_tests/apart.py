"""Runs work in a separate process, so that killing it or limiting it does not affect the tests."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

SECONDS_MAX = 240
CONTEXT = multiprocessing.get_context("forkserver")  # imports once, and each process starts without threads
CONTEXT.set_forkserver_preload(
    [
        "ticdc_assets.pipeline.storage.source",
        "ticdc_assets.pipeline.stream.source",
        "ticdc_assets_tests.pipeline.faults.killed",
        "ticdc_assets_tests.protocols.hostile.damaged_batches",
    ]
)


def apart(work: Callable[..., Any], *arguments: Any, seconds_max: float = SECONDS_MAX) -> Any:
    """What `work`, a function of a module, gives. Raises AssertionError with what it raised, or what killed it."""
    reader, writer = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_tell, args=(writer, work, arguments))
    process.start()
    writer.close()
    try:
        outcome = reader.recv() if reader.poll(seconds_max) else ("it took too long", None)
    except EOFError:
        outcome = ("it died", None)
    if process.is_alive() and outcome[0] == "it took too long":
        process.kill()
    process.join()
    fault, answer = outcome
    assert fault is None, f"{fault} (exit code {process.exitcode})"
    return answer


def _tell(writer: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        writer.send((None, work(*arguments)))
    except BaseException:  # noqa: BLE001  the other process judges it
        writer.send((traceback.format_exc(), None))
