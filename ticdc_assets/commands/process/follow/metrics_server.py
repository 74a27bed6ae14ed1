"""Serves the metrics over HTTP, on the loopback address unless another one is given."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from ticdc_assets.commands.process.follow.metrics import CONTENT_TYPE, Metrics
from ticdc_assets.errors import ConfigError

LOOPBACK: Final = "127.0.0.1"
_PATHS: Final = ("/", "/metrics")
_REQUEST_SECONDS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Address:
    """Where metrics are served. Port 0 is a free port."""

    host: str
    port: int


@contextmanager
def served(metrics: Metrics, address: Address | None) -> Iterator[str]:
    """Serve while the body runs; the address as a URL, "" without one.

    Raises:
        ConfigError: the address cannot be bound.
    """
    if address is None:
        yield ""
        return
    try:
        server = ThreadingHTTPServer((address.host, address.port), _handler(metrics))
    except OSError as error:
        found = error.strerror or type(error).__name__
        advice = "Give another port or host with --metrics."
        raise ConfigError(f"--metrics {address.host}:{address.port}", "a free address", found, advice) from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{address.host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()


def _handler(metrics: Metrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS_MAX

        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in _PATHS:
                self.send_error(404)
                return
            body = metrics.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
            pass

    return Handler
