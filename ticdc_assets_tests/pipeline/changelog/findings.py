"""What a run found in the rows of all tables together."""

from __future__ import annotations

from ticdc_assets.pipeline.record import ChangelogReport, Findings


def total(report: ChangelogReport) -> Findings:
    """The findings of all tables."""
    return sum(report.findings.values(), Findings())
