"""Ctrl-C and SIGTERM in a command that waits: one sentence, exit code 130, and a terminal as it was."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SENTENCE = "Interrupted. No partial result is visible. Run the command again to continue."
CURSOR_SHOWN, CURSOR_HIDDEN = "\x1b[?25h", "\x1b[?25l"
SECONDS_MAX = 40


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_a_command_with_one_sentence_and_the_terminal_as_it_was(tmp_path: Path, number: signal.Signals):
    with socket.create_server(("127.0.0.1", 0)) as broker:  # it takes the connection and never answers
        broker.settimeout(SECONDS_MAX)
        uri = f"kafka://127.0.0.1:{broker.getsockname()[1]}/t?protocol=open-protocol"
        config = tmp_path / "changefeeds.yaml"
        config.write_text(f"changefeeds: {{shop: {{sink_uri: '{uri}'}}}}")
        command = [sys.executable, "-m", "ticdc_assets.cli", "run", "--config", str(config)]
        ours, theirs = pty.openpty()
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        broker.accept()[0].close()
        process.send_signal(number)
        shown = _all(ours)

    assert process.wait(SECONDS_MAX) == 128 + signal.SIGINT
    assert shown.count(SENTENCE) == 1
    assert "Traceback" not in shown
    assert shown.rfind(CURSOR_SHOWN) >= shown.rfind(CURSOR_HIDDEN)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_during_imports_ends_with_the_same_sentence_and_exit_code(number: signal.Signals):
    """It comes in a text that a library gives to `exec`, from which CPython would end with SIGINT."""
    script = f"""
import os, sys
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "ticdc_assets.command_line.read":
            exec("os.kill(os.getpid(), {int(number)})")
sys.meta_path.insert(0, Interrupting())
from ticdc_assets.cli import main
sys.exit(main(["tables"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", f"{SENTENCE}\n")


def test_sigterm_ends_nothing_where_it_is_ignored(tmp_path: Path):
    script = "trap '' TERM; exec \"$0\" -c 'import os, signal; from ticdc_assets.cli import main; "
    script += "from ticdc_assets.cli import termination_as_interruption as t\n"
    script += 'with t(): os.kill(os.getpid(), signal.SIGTERM)\nprint("goes on")\''

    done = subprocess.run(["bash", "-c", script, sys.executable], capture_output=True, text=True, check=False)

    assert done.stdout == "goes on\n"


def _all(descriptor: int) -> str:
    """What is written to a terminal until its other side is closed."""
    found = b""
    try:
        while more := os.read(descriptor, 65_536):
            found += more
    except OSError:  # so ends a terminal
        pass
    finally:
        os.close(descriptor)
    return found.decode(errors="replace")
