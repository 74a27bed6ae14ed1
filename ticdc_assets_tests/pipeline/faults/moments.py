"""The moments at which tests end a run."""

from __future__ import annotations

from ticdc_assets.failpoints import Failpoint

MOMENTS = list(Failpoint)

# Those before a scan are of landings, whose tests kill them.
CHANGELOG_MOMENTS = MOMENTS[MOMENTS.index(Failpoint.SCANNED) : MOMENTS.index(Failpoint.MIRROR_MADE)]
