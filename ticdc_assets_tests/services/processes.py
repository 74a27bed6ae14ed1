"""What the servers of tests have in common: ports that are free, and an end no later than that of the tests."""

from __future__ import annotations

import shutil
import socket
from contextlib import ExitStack

DIES_WITH_THE_TESTS = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for found in sockets:
            found.bind(("127.0.0.1", 0))
        return [found.getsockname()[1] for found in sockets]
