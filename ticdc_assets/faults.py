"""Converts every error to an error of this project: messages of libraries may quote rows or credentials, so only the
kind and the place of their errors are shown (guarantee G8).

The outermost handler calls `redacted_error`: the command line, a Dagster step, a worker before its error goes to the
driver. Errors of this project stay as they are, without their cause.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from itertools import takewhile
from pathlib import Path
from typing import Final

from ticdc_assets.catalog_answers import advice_for_catalog
from ticdc_assets.errors import EngineError, LakeError, MachineError, StaleRunError, TicdcAssetsError, UnexpectedError
from ticdc_assets.stack_frames import causes_of, frames_of, java_classes, java_messages, java_place
from ticdc_assets.store_answers import advice_for, answer_to_java, store_code

DEBUG_VARIABLE: Final = "TICDC_ASSETS_DEBUG"
"""If set, errors of libraries are shown completely, with values."""

LOGS: Final[list[Path]] = []
"""The files that receive the output of Spark and Dagster, the current one last; empty if it is not redirected."""

_PACKAGE: Final = Path(__file__).parent
_SPARK: Final = ("pyspark", "py4j")
_NO_ANSWER: Final = ("requests", "urllib3", "botocore", "aiohttp", "sqlalchemy", "pyiceberg", "thrift")
_OF_A_TABLE: Final = ("NoSuchTableError", "ValidationError", "ResolveError", "NotInstalledError")
"""Errors of pyiceberg that concern one table only."""
_OF_A_FILE: Final = (
    *(None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL),
)
"""Errors of the system, or of a library, that concern one file only."""
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
"""Java exceptions that mean an outage of the catalog, the object store or the machine."""
_OUTAGE_WORDS: Final = (
    *("No space left on device", "Disk quota exceeded", "Too many open files", "Read-only file system"),
    *("Permission denied", "stopped SparkContext", "SparkContext was shut down", "SparkContext has been shutdown"),
)
_JAVA_FILE: Final = re.compile(r"(?:^|\s)(/\S*)\s*:?\s*$")
"""The path at the end of what Java says before the words of the system; a path with spaces is not found."""
_AGAIN: Final = "Then run again; no partial result is visible."
_ADVICE_BY_ERRNO: Final = {
    errno.ENOSPC: f"Free space on the disk of the lake, or in the folder for temporary files. {_AGAIN}",
    errno.EDQUOT: f"Free space on the disk of the lake, or in the folder for temporary files. {_AGAIN}",
    errno.EFBIG: f"Raise the limit on the size of files (ulimit -f). {_AGAIN}",
    errno.EROFS: f"Give this process the right to write the lake. {_AGAIN}",
    errno.EACCES: f"Give this process the right to read and write the lake. {_AGAIN}",
    errno.EPERM: f"Give this process the right to read and write the lake. {_AGAIN}",
    errno.EMFILE: f"Raise the limit on open files (ulimit -n). {_AGAIN}",
    errno.ENFILE: f"Raise the machine's limit on open files. {_AGAIN}",
    errno.ENOENT: f"Restore the file if somebody removed it from the lake. {_AGAIN}",
}
_ADVICE_BY_SQLITE: Final = {
    "SQLITE_BUSY": f"Another process holds the catalog's database: let it end, or stop it. {_AGAIN}",
    "SQLITE_LOCKED": f"Another process holds the catalog's database: let it end, or stop it. {_AGAIN}",
    "SQLITE_FULL": f"Free space on the disk of the catalog's database. {_AGAIN}",
    "SQLITE_READONLY": f"Let this process write the catalog's database and its folder. {_AGAIN}",
    "SQLITE_CANTOPEN": f"Check that the catalog's database exists and can be opened. {_AGAIN}",
    "SQLITE_IOERR": f"Check the disk of the catalog's database. {_AGAIN}",
    "SQLITE_CORRUPT": "Restore the catalog's database from a copy: its data about the tables is damaged.",
    "SQLITE_NOTADB": "Restore the catalog's database from a copy: the file is not a database.",
}

_NO_TEMPORARY_FOLDER: Final = re.compile(r"No usable temporary directory found in \[(.*)\]")
_LOCAL_FILE: Final = re.compile(r"(?:local file|directory) '(/[^']+)'")
_BUCKET: Final = re.compile(r"\bbucket '([^']+)'")
_NO_WAREHOUSE: Final = "Make the bucket, or correct catalog.warehouse."


def redacted_error(error: BaseException) -> TicdcAssetsError:
    """The error in four parts, without any text that could quote a row."""
    found = error if isinstance(error, TicdcAssetsError) else _converted(error)
    found.__cause__ = None
    found.__context__ = None
    found.__suppress_context__ = True
    return found.with_traceback(error.__traceback__)


def interrupted_by(error: BaseException) -> BaseException | None:
    """The interruption during which the error was raised, such as in clean-up code; None without one.

    An interruption is a BaseException that is no Exception: KeyboardInterrupt, or the one that Dagster makes of it.
    """
    seen: BaseException | None = error
    while seen is not None and isinstance(seen, Exception):
        seen = seen.__cause__ or seen.__context__
    return None if isinstance(seen, GeneratorExit) else seen


def of_one_table(error: Exception) -> TicdcAssetsError:
    """The error that holds the current table. Writes the frames of the original to the log.

    Raises the error again if it does not concern this table alone: another run published first, the machine, the
    catalog or the object store has an outage, or the run was interrupted.
    """
    if isinstance(error, (StaleRunError, MachineError, EngineError, LakeError, MemoryError)) or interrupted_by(error):
        raise error
    if isinstance(error, TicdcAssetsError):
        return error
    if is_outage(error):
        raise error
    note_frames(error)
    return redacted_error(error)


def note_frames(error: BaseException) -> None:
    """Write the classes and frames of a library's error to the log; with the debug variable, the whole error."""
    wants_all = os.environ.get(DEBUG_VARIABLE)
    text = "".join(traceback.format_exception(error)) if wants_all else frames_of(error)
    sys.stderr.write(f"== an error of a library; innermost frame first\n{text}\n")
    sys.stderr.flush()


def is_outage(error: BaseException) -> bool:
    """Whether the next table would get the same error."""
    for cause in causes_of(error):
        if isinstance(cause, (ConnectionError, TimeoutError)):
            return True
        if isinstance(cause, OSError) and (cause.errno not in _OF_A_FILE or _folders_tried(cause)):
            return True
        if hasattr(cause, "sqlite_errorname") or hasattr(getattr(cause, "orig", None), "sqlite_errorname"):
            return True
        module = type(cause).__module__.partition(".")[0]
        if module in _NO_ANSWER and type(cause).__name__ not in _OF_A_TABLE:
            return True
        classes = {name.rpartition(".")[2].rpartition("$")[2] for name in java_classes(cause)}
        if module == "py4j" and not classes:
            return True  # Java does not respond
        if classes & _OUTAGES or any(words in text for text in java_messages(cause) for words in _OUTAGE_WORDS):
            return True
    return False


def log_named() -> str:
    """The place of Spark's output: a log file, or the standard error of the process that started it."""
    return str(LOGS[-1]) if LOGS else "what Spark wrote to stderr (in Dagster's UI: the run's stderr)"


def _converted(error: BaseException) -> TicdcAssetsError:
    module = type(error).__module__.partition(".")[0]
    if module in _SPARK:
        if (met := _system_error_of_java(error)) is not None:
            return _of_system(met.with_traceback(error.__traceback__), met.errno or 0)
        if (advice := _refusal_of_java(error)) is not None:
            place = f"Spark, for {_place(error)}"
            return LakeError(place, "an answer of the catalog or store", _spark_kind(error), f"{advice} {_AGAIN}")
        advice = f"Read {log_named()}; it is safe to run again."
        return UnexpectedError(f"Spark, for {_place(error)}", "to finish its work", _spark_kind(error), advice)
    database = getattr(error, "orig", None) or error
    if hasattr(database, "sqlite_errorname"):
        return _of_sqlite(error, str(database.sqlite_errorname))
    if isinstance(error, OSError) and (tried := _folders_tried(error)):
        expected = "a folder that this process's user can write"
        return MachineError("temporary files", expected, f"none of {tried}", "Let TMPDIR name such a folder.")
    if isinstance(error, OSError) and error.errno is not None:
        return _of_system(error, error.errno)
    if isinstance(error, OSError) and (code := store_code(error)):
        return _of_store(error, code)
    if module in _NO_ANSWER:
        known = advice_for_catalog(_kind(error)) or "Check the catalog or the store, and the network."
        advice = f"{known} {_AGAIN}"
        return LakeError(_place(error), "an answer of the catalog or store", _kind(error), advice)
    advice = "No partial result is visible. Run again, and report this line if it appears again."
    return UnexpectedError(_place(error), "to finish", _kind(error), advice)


def _refusal_of_java(error: BaseException) -> str | None:
    """What to do about what a catalog or a store has refused to Java; None for another error."""
    of_store = [answer_to_java(text) for text in java_messages(error)]
    of_catalog = [advice_for_catalog(name.rpartition(".")[2]) for name in java_classes(error)]
    return next((advice for advice in (*of_store, *of_catalog) if advice is not None), None)


def _system_error_of_java(error: BaseException) -> OSError | None:
    """The error of the operating system that Java met, as in `/lake/x (Read-only file system)`; None where it met
    none that is known here. A message that only quotes these words does not end with them."""
    for text in java_messages(error):
        for number in _ADVICE_BY_ERRNO.keys() - {errno.ENOENT}:
            words = os.strerror(number)
            if text.rstrip(")").endswith(words):
                named = _JAVA_FILE.search(text.removesuffix(f"({words})"))
                return OSError(number, words, *([named[1]] if named else []))
    return None


def _folders_tried(error: OSError) -> str:
    """The folders in which Python could make no temporary file; empty for another error. Only its text shows this."""
    found = _NO_TEMPORARY_FOLDER.match(error.strerror or "")
    return found[1] if found else ""


def _of_sqlite(error: BaseException, name: str) -> LakeError:
    base = "_".join(name.split("_")[:2])
    advice = _ADVICE_BY_SQLITE.get(base, f"Check the catalog's database. {_AGAIN}")
    return LakeError(_place(error), "an answer of the catalog's database", name, advice)


def _of_system(error: OSError, number: int) -> LakeError:
    found = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
    advice = _ADVICE_BY_ERRNO.get(number, f"Check the disk, the store and the network. {_AGAIN}")
    place, path = _place(error), _file_of(error)
    if path is None:
        return LakeError(place, "to read and write files", found, advice)
    return LakeError(str(path), "to read and write this file", f"{found} in {place}", advice)


def _of_store(error: OSError, code: str) -> LakeError:
    bucket = _BUCKET.search(str(error))
    where = f"the bucket {bucket[1]}" if bucket else _place(error)
    known = _NO_WAREHOUSE if code == "NO_SUCH_BUCKET" else advice_for(code)
    advice = f"{known or 'Check object_store and the network.'} {_AGAIN}"
    return LakeError(where, "an answer of the object store", code, advice)


def _file_of(error: OSError) -> Path | None:
    """The path of the local file, up to the first partition folder: the name of that folder contains row values."""
    named = _LOCAL_FILE.search(error.strerror or "")  # so do errors of pyarrow, which set no file name
    name = error.filename or (named[1] if named else None)
    if not isinstance(name, str) or not name or "://" in name:
        return None
    return Path(*takewhile(lambda part: "=" not in part, Path(name).parts))


def _spark_kind(error: BaseException) -> str:
    condition = getattr(error, "getCondition", lambda: None)()
    details = ", ".join(filter(None, [condition, java_place(error)]))
    return f"{_kind(error)} ({details})" if details else _kind(error)


def _kind(error: BaseException) -> str:
    return type(error).__name__


def _place(error: BaseException) -> str:
    """The innermost frame of this project in the traceback."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGE):
            return f"{path.relative_to(_PACKAGE.parent)}:{frame.lineno} in {frame.name}"
    return "this process"
