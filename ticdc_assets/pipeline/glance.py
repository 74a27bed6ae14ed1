"""What a sensor asks a source: whether it has new input. Cheap, and without a JVM."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glance:
    """The state of a source, without reading its records.

    digest: changes whenever the source has new input; of constant size.
    checkpoint: the TSO up to which the source is complete; None where only a scan finds it.
    not_yet: why no run can read the source yet, as a sentence; "" where runs can.
    """

    digest: str
    checkpoint: int | None = None
    not_yet: str = ""
