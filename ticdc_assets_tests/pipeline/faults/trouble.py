"""Runs that fail from a failpoint on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from ticdc_assets import failpoints as moments
from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.faults import redacted_error
from ticdc_assets_tests.pipeline.small_feeds import Feed

FROM = (Failpoint.SCANNED, Failpoint.BEFORE_CHANGELOG_COMMIT)
FROM_TOO = (Failpoint.CHANGELOGS_MADE, Failpoint.DECODED, Failpoint.BEFORE_CURSOR)


@contextmanager
def listening(listen: Callable[[Failpoint], None]) -> Iterator[None]:
    moments.LISTENERS.append(listen)
    try:
        yield
    finally:
        moments.LISTENERS.remove(listen)


def fault_of(feed: Feed, since: Failpoint, trouble: AbstractContextManager[None]) -> TicdcAssetsError | None:
    """How a run ends that meets the trouble from a moment on to its end; None where it did not matter."""
    begun: list[AbstractContextManager[None]] = []

    def begin(hit: Failpoint) -> None:
        if hit is since and not begun:
            begun.append(trouble)
            trouble.__enter__()

    try:
        with listening(begin):
            feed.run()
    except Exception as error:  # noqa: BLE001
        return redacted_error(error)
    finally:
        assert begun, "the moment was never reached"
        trouble.__exit__(None, None, None)
    return None
