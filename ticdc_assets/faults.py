"""Every error as this project tells it: what libraries say of a fault may quote rows or credentials, so only its kind
and the place are told (guarantee G8).

The last one to see an error asks `plain`: the command line, a Dagster step, a worker before its error crosses to the
driver. Errors of this project stay what they are, without what they were raised from.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from itertools import takewhile
from pathlib import Path
from typing import Final

from ticdc_assets.errors import LakeError, MachineError, StaleRunError, TicdcAssetsError, UnexpectedError
from ticdc_assets.frames import causes_of, frames_of, java_classes, java_messages, java_place

DEBUG_VARIABLE: Final = "TICDC_ASSETS_DEBUG"
"""Where it is set, errors of libraries are shown whole, values and all."""

LOGS: Final[list[Path]] = []
"""The files to which what Spark and Dagster print goes, the one in use last; none where nobody keeps it."""

_PACKAGE: Final = Path(__file__).parent
_SPARK: Final = ("pyspark", "py4j")
_NO_ANSWER: Final = ("requests", "urllib3", "botocore", "aiohttp", "sqlalchemy", "pyiceberg")
_OF_A_TABLE: Final = ("NoSuchTableError", "ValidationError", "ResolveError", "NotInstalledError")
"""What pyiceberg says of one table, whatever becomes of the others."""
_OF_A_FILE: Final = (
    *(None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL),
)
"""What the system says of one file, or a library in its name."""
_OUTAGES: Final = frozenset(
    {
        *("ConnectException", "SocketException", "SocketTimeoutException", "UnknownHostException"),
        *("NoRouteToHostException", "HttpHostConnectException", "SdkClientException", "TTransportException"),
        *("RESTException", "ServiceFailureException", "ServiceUnavailableException", "CommitStateUnknownException"),
        *("NotAuthorizedException", "ForbiddenException", "SQLException", "SQLiteException", "UncheckedSQLException"),
        *("InterruptedException", "UncheckedInterruptedException", "OutOfMemoryError", "FSError"),
        *("AccessDeniedException", "FileSystemException"),
    }
)
"""What Java calls the trouble of a catalog, a store or a machine."""
_OUTAGE_WORDS: Final = (
    *("No space left on device", "Disk quota exceeded", "Too many open files", "Read-only file system"),
    *("Permission denied", "stopped SparkContext", "SparkContext was shut down", "SparkContext has been shutdown"),
)
_AGAIN: Final = "Then run again: nothing half-done is visible."
_TODO_BY_ERRNO: Final = {
    errno.ENOSPC: f"Make room where the lake lies, or in the folder for temporary files. {_AGAIN}",
    errno.EDQUOT: f"Make room where the lake lies, or in the folder for temporary files. {_AGAIN}",
    errno.EFBIG: f"Raise the limit on the size of files (ulimit -f). {_AGAIN}",
    errno.EROFS: f"Let this process write where the lake lies. {_AGAIN}",
    errno.EACCES: f"Give this process the right to read and write the lake. {_AGAIN}",
    errno.EPERM: f"Give this process the right to read and write the lake. {_AGAIN}",
    errno.EMFILE: f"Raise the limit on open files (ulimit -n). {_AGAIN}",
    errno.ENFILE: f"Raise the machine's limit on open files. {_AGAIN}",
    errno.ENOENT: f"Restore the file, where somebody removed it from the lake. {_AGAIN}",
}
_TODO_BY_SQLITE: Final = {
    "SQLITE_BUSY": f"Another process holds the catalog's database: let it end, or stop it. {_AGAIN}",
    "SQLITE_LOCKED": f"Another process holds the catalog's database: let it end, or stop it. {_AGAIN}",
    "SQLITE_FULL": f"Make room on the disk of the catalog's database. {_AGAIN}",
    "SQLITE_READONLY": f"Let this process write the catalog's database and its folder. {_AGAIN}",
    "SQLITE_CANTOPEN": f"Look whether the catalog's database is there and may be opened. {_AGAIN}",
    "SQLITE_IOERR": f"Look at the disk of the catalog's database. {_AGAIN}",
    "SQLITE_CORRUPT": "Restore the catalog's database from a copy: what it says of the tables is damaged.",
    "SQLITE_NOTADB": "Restore the catalog's database from a copy: the file is something else.",
}


def plain(error: BaseException) -> TicdcAssetsError:
    """The error in four parts, with nothing behind it that could quote a row."""
    found = error if isinstance(error, TicdcAssetsError) else _told(error)
    found.__cause__ = None
    found.__context__ = None
    found.__suppress_context__ = True
    return found.with_traceback(error.__traceback__)


def interrupted_by(error: BaseException) -> BaseException | None:
    """The interruption during which the error came up, as what was under way was put away; None where there was none.

    Whoever interrupts raises what is no Exception: KeyboardInterrupt, or what Dagster makes of it.
    """
    seen: BaseException | None = error
    while seen is not None and isinstance(seen, Exception):
        seen = seen.__cause__ or seen.__context__
    return None if isinstance(seen, GeneratorExit) else seen


def of_one_table(error: Exception) -> TicdcAssetsError:
    """The error as what holds the table that was worked on, its frames noted in the log. Raises it again where it is
    not of one table: another run was first, machine, catalog or store are in trouble, or somebody interrupts.
    """
    if isinstance(error, (StaleRunError, MachineError, LakeError, MemoryError)) or interrupted_by(error):
        raise error
    if isinstance(error, TicdcAssetsError):
        return error
    if _is_outage(error):
        raise error
    note_frames(error)
    return plain(error)


def note_frames(error: BaseException) -> None:
    """Write where a library's error came up to the log: classes and frames, or all of it where somebody asked."""
    asked_for_all = os.environ.get(DEBUG_VARIABLE)
    text = "".join(traceback.format_exception(error)) if asked_for_all else frames_of(error)
    sys.stderr.write(f"== an error of a library; innermost frame first\n{text}\n")
    sys.stderr.flush()


def _is_outage(error: BaseException) -> bool:
    """Whether the next table would meet the same."""
    for cause in causes_of(error):
        if isinstance(cause, (ConnectionError, TimeoutError)):
            return True
        if isinstance(cause, OSError) and cause.errno not in _OF_A_FILE:
            return True
        if hasattr(cause, "sqlite_errorname") or hasattr(getattr(cause, "orig", None), "sqlite_errorname"):
            return True
        module = type(cause).__module__.partition(".")[0]
        if module in _NO_ANSWER and type(cause).__name__ not in _OF_A_TABLE:
            return True
        classes = {name.rpartition(".")[2].rpartition("$")[2] for name in java_classes(cause)}
        if module == "py4j" and not classes:
            return True  # Java does not answer
        if classes & _OUTAGES or any(words in text for text in java_messages(cause) for words in _OUTAGE_WORDS):
            return True
    return False


def log_named() -> str:
    """Where to look for what Spark has said: it goes to the standard error of the process that started it."""
    return str(LOGS[-1]) if LOGS else "what Spark wrote to stderr (in Dagster's UI: the run's stderr)"


def _told(error: BaseException) -> TicdcAssetsError:
    module = type(error).__module__.partition(".")[0]
    if module in _SPARK:
        todo = f"Look at {log_named()}; it is safe to run again."
        return UnexpectedError(f"Spark, for {_place(error)}", "to finish its work", _spark_kind(error), todo)
    database = getattr(error, "orig", None) or error
    if hasattr(database, "sqlite_errorname"):
        return _of_sqlite(error, str(database.sqlite_errorname))
    if isinstance(error, OSError) and error.errno is not None:
        return _of_system(error, error.errno)
    if module in _NO_ANSWER:
        todo = f"Look at the catalog or store and the way to it. {_AGAIN}"
        return LakeError(_place(error), "an answer of the catalog or store", _kind(error), todo)
    todo = "Nothing half-done is visible. Run again, and report this line where it comes again."
    return UnexpectedError(_place(error), "to finish", _kind(error), todo)


def _of_sqlite(error: BaseException, name: str) -> LakeError:
    base = "_".join(name.split("_")[:2])
    todo = _TODO_BY_SQLITE.get(base, f"Look at the catalog's database. {_AGAIN}")
    return LakeError(_place(error), "an answer of the catalog's database", name, todo)


def _of_system(error: OSError, number: int) -> LakeError:
    found = f"{os.strerror(number)} ({errno.errorcode.get(number, number)}){_at_file(error)}"
    todo = _TODO_BY_ERRNO.get(number, f"Look at the disk or the way to the store. {_AGAIN}")
    return LakeError(_place(error), "to read and write files", found, todo)


def _at_file(error: OSError) -> str:
    """The local file, up to the first folder of a partition: its name is a value of rows."""
    name = error.filename
    if not isinstance(name, str) or "://" in name:
        return ""
    told = takewhile(lambda part: "=" not in part, Path(name).parts)
    return f" at {Path(*told)}"


def _spark_kind(error: BaseException) -> str:
    condition = getattr(error, "getCondition", lambda: None)()
    said = ", ".join(filter(None, [condition, java_place(error)]))
    return f"{_kind(error)} ({said})" if said else _kind(error)


def _kind(error: BaseException) -> str:
    return type(error).__name__


def _place(error: BaseException) -> str:
    """Where in this project the error came up, whatever library it began in."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGE):
            return f"{path.relative_to(_PACKAGE.parent)}:{frame.lineno} in {frame.name}"
    return "this process"
