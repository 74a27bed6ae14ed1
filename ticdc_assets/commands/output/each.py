"""Runs a command for one changefeed after another: an error in one is reported and does not stop the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import ConfigError, TicdcAssetsError, UnexpectedError
from ticdc_assets.faults import DEBUG_VARIABLE, LOGS, interrupted_by, note_frames, redacted_error

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed

EXIT_FAILED: Final = 1
EXIT_CONFIG: Final = 2
EXIT_NOT_READ: Final = 141


def each(chosen: Sequence[Changefeed], work: Callable[[Changefeed], bool], note: Callable[[str], None]) -> int:
    """Call `work` for each changefeed; its result says whether all is well. Errors are reported with `note`.

    Returns:
        The exit code for all: the worst of any changefeed.
    """
    worst = 0
    for changefeed in chosen:
        try:
            code = 0 if work(changefeed) else EXIT_FAILED
        except Exception as error:  # noqa: BLE001  an error in one changefeed must not stop the others
            note(f"{changefeed.name}: {sentence_of(error)}")
            code = code_of(error)
        worst = max(worst, code)
    return worst


def sentence_of(error: Exception) -> str:
    """The error as one sentence for the user.

    Raises the error itself if the user asked for full errors, and the interruption if it only follows from one.
    """
    if interruption := interrupted_by(error):
        raise interruption from None
    if os.environ.get(DEBUG_VARIABLE) and not isinstance(error, TicdcAssetsError):
        raise error
    if LOGS and not isinstance(error, TicdcAssetsError):
        note_frames(error)
    fault = redacted_error(error)
    more = f" {DEBUG_VARIABLE}=1 shows more." if isinstance(fault, UnexpectedError) else ""
    return f"{fault}{more}"


def code_of(error: Exception) -> int:
    """The exit code for this error."""
    return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAILED
