"""Runs a command as a process to which the rights of files apply, also where root runs the tests (Linux)."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


def called_as_plain_user(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Call `ticdc-assets` in a folder."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", "ticdc_assets.cli", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=120, preexec_fn=_obeying
    )


def _obeying() -> None:
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # root has them after exec otherwise
