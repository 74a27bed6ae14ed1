"""Runs the payloads of many tables in one job. If it fails, each payload runs alone, so that the error has a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table

if TYPE_CHECKING:
    from ticdc_assets.spark import Workers

Payload = TypeVar("Payload")
Answer = TypeVar("Answer")


def answers_of(
    workers: Workers, work: Callable[[Payload], Answer], payloads: Sequence[Payload]
) -> list[Answer | TicdcAssetsError]:
    """The answer to each payload, or the error that holds its table. An error that concerns all tables is raised."""
    if not payloads:
        return []
    try:
        return list(workers.map(work, payloads))
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        fault = of_one_table(error)
    return [fault] if len(payloads) == 1 else [_answer(workers, work, payload) for payload in payloads]


def _answer(workers: Workers, work: Callable[[Payload], Answer], payload: Payload) -> Answer | TicdcAssetsError:
    try:
        return workers.map(work, [payload])[0]
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        return of_one_table(error)
