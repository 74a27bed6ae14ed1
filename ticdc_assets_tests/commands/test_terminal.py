"""What a person sees while something runs, and where the noise of Spark and Dagster goes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ticdc_assets.commands.terminal import Terminal


def test_progress_is_shown_again_after_something_failed():
    terminal = Terminal()
    terminal.err = Console(file=io.StringIO(), force_terminal=True)
    with pytest.raises(ValueError, match="broken"), terminal.working("looking"):
        raise ValueError("broken")

    terminal.err = Console(file=(shown := io.StringIO()))
    terminal.say("going on")

    assert shown.getvalue() == "going on\n"
