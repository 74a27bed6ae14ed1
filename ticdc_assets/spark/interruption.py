"""Interruptions while Spark works: Ctrl-C, SIGTERM, and the exception that Dagster raises for both."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

_INTERRUPTED: Final = "KeyboardInterrupt while sending command."


@contextmanager
def interrupts_as_before() -> Iterator[None]:
    """Keep the current handler of Ctrl-C, also while Spark starts.

    Spark would replace it: its handler asks Java to cancel all jobs. During another call to Java that fails, and the
    step would end with a Spark error and not as interrupted.
    """
    from pyspark.core import context

    true_signal, context.signal = context.signal, SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)
    try:
        yield
    finally:
        context.signal = true_signal


def abandon_interrupted_calls(client: Any) -> None:
    """Let a client of Py4J close the connection on which a call was interrupted.

    Py4J has one connection for each thread, and closes it after KeyboardInterrupt only. After Dagster's exception the
    next call, such as the one that PySpark makes when it leaves a job, would wait until Java has ended the interrupted
    one, and would take the answer of that one for its own.
    """
    _log_no_interruption()
    if not hasattr(client, "get_thread_connection"):
        return  # without a connection for each thread, an interrupted one is not used again
    send_command = client.send_command

    def send_or_abandon(*arguments: Any, **options: Any) -> Any:
        try:
            return send_command(*arguments, **options)
        except BaseException as error:
            if not isinstance(error, Exception):
                _close(client.get_thread_connection())
            raise

    client.send_command = send_or_abandon


def _log_no_interruption() -> None:
    """Py4J raises what it logs, and writes the trace of KeyboardInterrupt to the root logger."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if _is_no_interruption not in root.filters:
        root.addFilter(_is_no_interruption)


def _is_no_interruption(record: logging.LogRecord) -> bool:
    return record.msg != _INTERRUPTED


def _close(connection: Any) -> None:
    if connection is not None:
        connection.close()
