"""A Confluent schema registry over HTTP: schemas by id, each requested once.

`RegistryClient` requests one schema: GET /schemas/ids/<id> from the configured host only, as redirects are refused.
Each request has a deadline and a size limit, and is retried if the registry may only be busy. Errors never quote its
answer. `RegistrySchemas` is the lookup for decoders: first the schemas kept in the lake, then the client. A pickled
lookup has only the schemas known by then, so workers make no requests.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import orjson

from ticdc_assets.errors import SourceError

if TYPE_CHECKING:
    from ticdc_assets.config.model.source import RegistryAuth

DEADLINE_S: Final = 30.0
"""Time limit of one request, without its retries."""

TRIES: Final = 4
PAUSE_S: Final = 0.5
"""The pause before the first retry; it doubles with each further one."""

ANSWER_BYTES_MAX: Final = 16 << 20
"""A schema with 4096 columns and long label lists is far smaller."""

UNKNOWN_IDS_MAX: Final = 1_000
"""Ids unknown to the registry. More of them mean that the messages have another protocol."""

_PROBES_MAX: Final = 3
"""How many schemas of the lake are compared with the registry's: a single one may have been deleted there."""

_SCHEMA_NOT_FOUND: Final = 40403
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
_DENIED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_ADVICE: Final = "Check `schema_registry` in the config; if the address is right, run again when the registry answers."

_ADVICE_OTHER: Final = (
    "Let `schema_registry` name the registry that TiCDC registers at, with all its schemas; then run again."
)


class UnknownSchemaError(LookupError):
    """Raised if the registry has no schema with that id."""


class _BusyError(Exception):
    """Raised if a retry may help; the argument describes what was found."""


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The deadline of a request and the number of its attempts."""

    deadline_s: float = DEADLINE_S
    tries: int = TRIES
    pause_s: float = PAUSE_S


class RegistryClient:
    """Requests schemas from one registry; keeps no connection open between requests."""

    def __init__(self, url: str, auth: RegistryAuth | None = None, policy: RequestPolicy | None = None) -> None:
        parts = urlsplit(url)
        self.url = url
        self._secure = parts.scheme == "https"
        self._host, self._port, self._path = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._headers = {"Accept": _ACCEPT, "Connection": "close", **_authorization(auth)}
        self._policy = policy or RequestPolicy()

    def schema(self, schema_id: int) -> str:
        """The schema with that id. UnknownSchemaError if there is none, SourceError if there is no usable answer."""
        where = f"{self.url}/schemas/ids/{schema_id}"
        found = ""
        for attempt in range(self._policy.tries):
            if attempt:
                time.sleep(self._policy.pause_s * 2 ** (attempt - 1))
            try:
                return _schema(*self._ask(f"{self._path}/schemas/ids/{schema_id}", where), where)
            except _BusyError as busy:
                found = str(busy)
        raise SourceError(where, "an answer of the schema registry", f"{found}, {self._policy.tries} times", _ADVICE)

    def _ask(self, path: str, where: str) -> tuple[int, bytes]:
        """Returns status and body."""
        connection = self._connection()
        try:
            connection.connect()
            with _cut_after(connection.sock, self._policy.deadline_s):
                connection.request("GET", path, headers=self._headers)
                response = connection.getresponse()
                return response.status, _body(response, where)
        except TimeoutError:
            raise _BusyError("no answer in time") from None
        except ssl.SSLCertVerificationError:
            advice = "Make the registry's authority known with SSL_CERT_FILE, or check the address."
            raise SourceError(where, "a certificate that can be verified", "another", advice) from None
        except (OSError, HTTPException) as error:
            raise _BusyError(f"a connection that failed ({type(error).__name__})") from None
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        timeout_s = self._policy.deadline_s
        if self._secure:
            context = ssl.create_default_context()
            return HTTPSConnection(self._host, self._port, timeout=timeout_s, context=context)
        return HTTPConnection(self._host, self._port, timeout=timeout_s)


class RegistrySchemas:
    """Schemas by id: those `kept` in the lake, then those from the client; the latter are in `fetched`.

    `kept` is called on the first lookup, so that nothing is read if no schema is needed.
    """

    def __init__(self, kept: Callable[[], Mapping[int, str]], client: RegistryClient | None = None) -> None:
        self._kept = kept
        self._client = client
        self._unknown: set[int] = set()
        self.fetched: dict[int, str] = {}

    @property
    def url(self) -> str:
        """The registry's address."""
        return self._client.url if self._client else ""

    def __call__(self, schema_id: int) -> str:
        if schema_id in self._known:
            return self._known[schema_id]
        if self._client is None or schema_id in self._unknown:
            raise UnknownSchemaError(schema_id)
        try:
            schema = self._client.schema(schema_id)
        except UnknownSchemaError:
            self._note_unknown(schema_id)
            raise
        self._known[schema_id] = self.fetched[schema_id] = schema
        return schema

    def require_own_registry(self) -> None:
        """Raise SourceError if the registry is that of other messages. Call it before anything is published: messages
        whose schemas are unknown are quarantined, and the first schemas of a table cannot be added later.

        It is another registry if it knows no schema of the messages, or has another schema under an id of the lake.
        """
        if self._client is None or not (self._unknown or self.fetched):
            return
        newest = sorted(self._of_lake, reverse=True)[:_PROBES_MAX]
        found = {schema_id: known for schema_id in newest if (known := self._asked(self._client, schema_id))}
        if any(not _equal(known, self._of_lake[schema_id]) for schema_id, known in found.items()):
            raise SourceError(self.url, "the schemas of before under their ids", "others", _ADVICE_OTHER)
        if not found and not self.fetched:
            unknown = ", ".join(map(str, sorted(self._unknown)[:_PROBES_MAX]))
            raise SourceError(
                self.url, "a registry that knows schemas of the messages", f"none of {unknown}", _ADVICE_OTHER
            )

    @staticmethod
    def _asked(client: RegistryClient, schema_id: int) -> str | None:
        with suppress(UnknownSchemaError):
            return client.schema(schema_id)
        return None

    @cached_property
    def _of_lake(self) -> dict[int, str]:
        return dict(self._kept())

    @cached_property
    def _known(self) -> dict[int, str]:
        return dict(self._of_lake)

    def _note_unknown(self, schema_id: int) -> None:
        self._unknown.add(schema_id)
        if len(self._unknown) > UNKNOWN_IDS_MAX:
            expected, found = "the registry that TiCDC registers its schemas at", f"{len(self._unknown):,} unknown ids"
            raise SourceError(self.url, expected, found, "Check `schema_registry`, and the changefeed's protocol.")

    def __reduce__(self) -> tuple[Callable[[dict[int, str]], RegistrySchemas], tuple[dict[int, str]]]:
        return _only, (self._known,)


def _equal(schema: str, other: str) -> bool:
    """Whether two schemas are the same JSON: a registry may write it in another way after a migration."""
    try:
        return schema == other or bool(orjson.loads(schema) == orjson.loads(other))
    except orjson.JSONDecodeError:
        return False


def _only(schemas: dict[int, str]) -> RegistrySchemas:
    """A lookup with only these schemas and without a client."""
    return RegistrySchemas(lambda: schemas)


def _authorization(auth: RegistryAuth | None) -> dict[str, str]:
    if auth is None:
        return {}
    if auth.token is not None:
        return {"Authorization": f"Bearer {auth.token.reveal()}"}
    password = auth.password.reveal() if auth.password else ""
    return {"Authorization": "Basic " + b64encode(f"{auth.user or ''}:{password}".encode()).decode()}


@contextmanager
def _cut_after(connected: socket.socket, seconds: float) -> Iterator[None]:
    """Close the connection at the deadline: the timeout of a socket applies to each single read only."""
    over = threading.Event()

    def cut() -> None:
        over.set()
        with suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, HTTPException, _BusyError):
        if over.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()


def _body(response: HTTPResponse, where: str) -> bytes:
    if 300 <= response.status < 400:  # the body of a redirect has no schema
        advice = "Name the final address: credentials are sent to no other host."
        raise SourceError(where, "an answer of the host that is configured", f"a redirect ({response.status})", advice)
    body = response.read(ANSWER_BYTES_MAX + 1)
    if len(body) > ANSWER_BYTES_MAX:
        raise SourceError(where, f"an answer of at most {ANSWER_BYTES_MAX} bytes", "a larger one", _ADVICE)
    if response.length:
        raise _BusyError("an answer that was cut")
    return body


def _schema(status: int, body: bytes, where: str) -> str:
    answer = _object(body)
    if status == HTTPStatus.OK:
        schema, kind = answer.get("schema"), answer.get("schemaType", "AVRO")
        if not isinstance(schema, str) or kind != "AVRO":
            found = "a schema of another kind" if isinstance(schema, str) else "another answer"
            raise SourceError(where, "an Avro schema from a schema registry", found, _ADVICE)
        return schema
    if status == HTTPStatus.NOT_FOUND and answer.get("error_code") == _SCHEMA_NOT_FOUND:
        raise UnknownSchemaError
    if status in _BUSY:
        raise _BusyError(f"HTTP {status}")
    advice = "Check `schema_registry.auth` and what that user may read." if status in _DENIED else _ADVICE
    raise SourceError(where, "a schema registry that answers", f"HTTP {status}", advice)


def _object(body: bytes) -> dict[str, Any]:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
