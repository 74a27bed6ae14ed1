"""A small schema registry on the loopback interface, for tests: a test sets its answers, and it ends with the test."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ticdc_assets.sources.schema_registry import RegistryClient, RequestPolicy

QUICK = RequestPolicy(deadline_s=20, tries=2, pause_s=0.01)
IMPATIENT = RequestPolicy(deadline_s=0.4, tries=2, pause_s=0.01)

Answer = Callable[[BaseHTTPRequestHandler], None]


class Registry:
    """A small real registry on the loopback interface; `asked` has the paths and headers of all questions."""

    def __init__(self, *answers: Answer, certificate: Path | None = None) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        left = list(answers)
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, dict(self.headers.items())))
                (left.pop(0) if len(left) > 1 else left[0])(self)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self._server.server_port}"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._server.handle_error = lambda *arguments: None  # a client that refuses is what is tested
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @contextmanager
    def running(self) -> Iterator[Registry]:
        self._thread.start()
        try:
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def client(self, **settings: Any) -> RegistryClient:
        return RegistryClient(self.url, **{"policy": QUICK, **settings})


def answer(status: int, body: Any, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def write(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    return write


def registry_of(schemas: dict[int, str]) -> Answer:
    """Answers every id as a registry with these schemas does."""

    def write(handler: BaseHTTPRequestHandler) -> None:
        schema = schemas.get(int(handler.path.rpartition("/")[2]))
        known = answer(404, {"error_code": 40403}) if schema is None else answer(200, {"schema": schema})
        known(handler)

    return write
