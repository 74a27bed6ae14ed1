"""Rows of the upstream TiDB at a TSO.

`UpstreamRows` opens one connection on first use and sets its session to one snapshot after another; TiDB makes such a
session read-only. Every wait has a limit. If a row cannot be read, it raises a NotYetError with advice and without the
server's message; a server that cannot be reached is not tried again.
"""

from __future__ import annotations

import ssl
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import pymysql
from pymysql import converters
from pymysql.constants import CR, ER

from ticdc_assets.errors import NotYetError
from ticdc_assets.sources.upstream.sql import SESSION, SNAPSHOT, HexBytes, Row, cells, select, value

if TYPE_CHECKING:
    from ticdc_assets.config.model.source import Upstream, UpstreamTls
    from ticdc_assets.schema.model import Column

ROWS_MAX: Final = 16
"""Rows per statement: they are the large ones."""

_GC_TOO_EARLY: Final = frozenset({8055, 9006})
_NOT_THERE: Final = frozenset({ER.BAD_DB_ERROR, ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR})
_DENIED: Final = frozenset(
    {ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR}
)
_LOST: Final = frozenset({0, *range(CR.CR_ERROR_FIRST, CR.CR_ERROR_FIRST + 100)})
"""Errors of the client, not of the server: no connection, or a lost one."""
_LOGIN: Final = frozenset({CR.CR_AUTH_PLUGIN_CANNOT_LOAD, CR.CR_AUTH_PLUGIN_ERR})
_NO_PROTOCOL: Final = (AssertionError, ValueError, LookupError, RuntimeError, struct.error)
"""Raised by the client library for bytes that violate MySQL's protocol or request a local file."""
_CHECK: Final = "Check `upstream` in the config; the next run tries again."
_GC_ADVICE: Final = (
    "TiDB has removed these rows: copy the table at a later TSO with `ticdc-assets resync`. Set `tidb_gc_life_time` to "
    "more than the time between two runs, or let TiCDC use claim-check."
)
_ENCODERS: Final[dict[Any, Any]] = {
    **converters.encoders,
    Decimal: lambda number, _mapping: format(number, "f"),  # an exponent would make it a float
    HexBytes: lambda key, _mapping: f"X'{key.value.hex()}'",
}
"""How parameters are written."""


@dataclass(frozen=True, slots=True)
class ConnectionPolicy:
    """Time limits of a connection and an answer, and the number of attempts after a lost connection."""

    connect_s: int = 10
    answer_s: int = 60
    tries: int = 2
    pause_s: float = 1.0


class NotThereError(NotYetError):
    """TiDB does not have the table or a column of it."""


class _NotInTheClear:
    """Replaces login methods that send the password unencrypted."""

    def __init__(self, connection: object) -> None:
        pass

    def authenticate(self, packet: object) -> None:
        """Refuse the login."""
        raise pymysql.OperationalError(CR.CR_AUTH_PLUGIN_ERR, "not over an open connection")


_OPEN_LOGINS: Final[dict[str, Callable[[Any], Any]]] = dict.fromkeys(
    ("mysql_clear_password", "mysql_old_password", "dialog"), _NotInTheClear
)


class UpstreamRows:
    """Reads rows at snapshots. The context manager closes the connection."""

    def __init__(self, upstream: Upstream, policy: ConnectionPolicy | None = None) -> None:
        self._upstream = upstream
        self._policy = policy or ConnectionPolicy()
        self._where = f"upstream {upstream.host}:{upstream.port}"
        self._connection: pymysql.Connection[Any] | None = None
        self._snapshot = 0
        self._gone: NotYetError | None = None

    def __enter__(self) -> UpstreamRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def another(self) -> UpstreamRows:
        """One with a connection of its own to the same server."""
        return UpstreamRows(self._upstream, self._policy)

    def rows(
        self,
        name: tuple[str, str],
        columns: Sequence[Column],
        key: Sequence[Column],
        wanted: Sequence[Sequence[Any]],
        tso: int,
    ) -> list[Row | None]:
        """The rows with these keys at the TSO; None for a row that did not exist.

        Args:
            key: the key columns, a part of `columns`.
            wanted: the key values of each row, as in the lake.

        Raises:
            DecodeError: a value does not have its column's type.
            NotYetError: the rows cannot be read now.
        """
        found: dict[tuple[Any, ...], Row] = {}
        listed = list(dict.fromkeys(tuple(values) for values in wanted))
        for begin in range(0, len(listed), ROWS_MAX):
            chunk = listed[begin : begin + ROWS_MAX]
            statement, parameters = select(*name, columns, key, chunk)
            for answer in self._answers(statement, parameters, tso):
                row = cells(columns, answer)
                found[tuple(value(column, row[column.name], "") for column in key)] = row
        return [found.get(tuple(values)) for values in wanted]

    def answers(self, statement: str, parameters: Sequence[Any], tso: int) -> Sequence[Sequence[bytes | None]]:
        """The rows that a SELECT answers at the TSO, as the server's bytes. Raises NotYetError as `rows` does."""
        return self._answers(statement, list(parameters), tso)

    def now(self) -> int:
        """The present TSO of TiDB. Raises NotYetError as `rows` does."""
        self._answers("BEGIN", [], 0)
        [[found]] = self._answers("SELECT @@tidb_current_ts", [], 0)
        self._answers("ROLLBACK", [], 0)
        return int(found or 0)

    # -- one statement ------------------------------------------------------------------------------------------------

    def _answers(self, statement: str, parameters: list[Any], tso: int) -> Sequence[Sequence[bytes | None]]:
        if self._gone is not None:
            raise self._gone
        for attempt in range(self._policy.tries):
            if attempt:
                time.sleep(self._policy.pause_s)
            try:
                return self._query(statement, parameters, tso)
            except (pymysql.MySQLError, OSError, *_NO_PROTOCOL) as error:
                fault = self._fault(error, tso)
                self._close()
                if fault is not None:
                    raise fault from None
        advice = "Check `upstream` and the network; the next run tries again."
        found = f"no connection that lasts, {self._policy.tries} times"
        self._gone = NotYetError(self._where, "a TiDB server that answers in time", found, advice)
        raise self._gone

    def _query(self, statement: str, parameters: list[Any], tso: int) -> Sequence[Sequence[bytes | None]]:
        connection = self._connection = self._connection or self._connected()
        with connection.cursor() as cursor:
            if self._snapshot != tso:
                cursor.execute(SNAPSHOT, (str(tso) if tso else "",))
                self._snapshot = tso
            cursor.execute(statement, parameters)
            answers: Sequence[Sequence[bytes | None]] = cursor.fetchall()
            return answers

    def _connected(self) -> pymysql.Connection[Any]:
        upstream, policy = self._upstream, self._policy
        connection: pymysql.Connection[Any] = pymysql.connect(
            host=upstream.host,
            port=upstream.port,
            user=upstream.user,
            password=upstream.password.reveal() if upstream.password else "",
            charset="utf8mb4",
            autocommit=True,
            use_unicode=False,  # cells are the server's bytes
            conv=_ENCODERS,
            connect_timeout=policy.connect_s,
            read_timeout=policy.answer_s,
            write_timeout=policy.answer_s,
            ssl=_context(upstream.tls) if upstream.tls else None,
            auth_plugin_map=None if upstream.tls else _OPEN_LOGINS,
        )
        self._snapshot = 0
        with connection.cursor() as cursor:
            cursor.execute(SESSION, (policy.answer_s * 1000,))
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(pymysql.MySQLError, OSError):
                self._connection.close()
        self._connection = None

    # -- what went wrong ----------------------------------------------------------------------------------------------

    def _fault(self, error: Exception, tso: int) -> NotYetError | None:
        """The error to raise; None if a retry may help."""
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        if code == CR.CR_SSL_CONNECTION_ERROR or isinstance(getattr(error, "original_exception", error), ssl.SSLError):
            advice = "Name the authority of the server's certificate in `upstream.tls.ca`, or check the address."
            return self._for_good(
                "a TLS connection to the server that was named", "one that cannot be verified", advice
            )
        if code in _LOGIN or (isinstance(error, RuntimeError) and self._connection is None):
            advice = "Set `upstream.tls`; or install `pymysql[rsa]`, where the user logs in with caching_sha2_password."
            return self._for_good("a login that does not expose the password", "one that would", advice)
        if not isinstance(error, pymysql.MySQLError) or isinstance(error, pymysql.InterfaceError) or code in _LOST:
            return None
        if code in _DENIED:
            advice = "Check `upstream.user` and `upstream.password`; that user needs SELECT on the tables."
            return self._denied(code, advice)
        if code in _GC_TOO_EARLY:
            found = "that the snapshot is older than TiDB's GC safe point (tikv_gc_safe_point in mysql.tidb)"
            return NotYetError(self._where, f"the rows at {tso}", found, _GC_ADVICE)
        if code in _NOT_THERE:
            return NotThereError(self._where, f"the table and its columns at {tso}", f"none (error {code})", _CHECK)
        if code == ER.UNKNOWN_SYSTEM_VARIABLE:
            return self._for_good("a TiDB server, which has `tidb_snapshot`", "another", _CHECK)
        return NotYetError(self._where, f"the rows at {tso}", f"error {code}", _CHECK)

    def _denied(self, code: int, advice: str) -> NotYetError:
        expected, found = "a user that may read", f"one that may not (error {code})"
        if code == ER.ACCESS_DENIED_ERROR:
            return self._for_good(expected, found, advice)
        return NotYetError(self._where, expected, found, advice)

    def _for_good(self, expected: str, found: str, advice: str) -> NotYetError:
        self._gone = NotYetError(self._where, expected, found, advice)
        return self._gone


def _context(tls: UpstreamTls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(tls.ca) if tls.ca else None)
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context
