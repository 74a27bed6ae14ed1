"""Every error as this project tells it: what libraries say of a fault may quote rows or credentials, so only its kind
and the place are told (guarantee G8).

The last one to see an error asks `plain`: the command line, a Dagster step, a worker before its error crosses to the
driver. Errors of this project stay what they are, without what they were raised from.
"""

from __future__ import annotations

import errno
import os
import traceback
from itertools import takewhile
from pathlib import Path
from typing import Final

from ticdc_assets.errors import LakeError, TicdcAssetsError, UnexpectedError

DEBUG_VARIABLE: Final = "TICDC_ASSETS_DEBUG"
"""Where it is set, errors of libraries are shown whole, values and all."""

LOGS: Final[list[Path]] = []
"""The files to which what Spark and Dagster print goes, the one in use last; none where nobody keeps it."""

_PACKAGE: Final = Path(__file__).parent
_SPARK: Final = ("pyspark", "py4j")
_NO_ANSWER: Final = ("requests", "urllib3", "botocore", "aiohttp", "sqlalchemy", "pyiceberg")
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


def log_named() -> str:
    """Where to look for what Spark has said: it goes to the standard error of the process that started it."""
    return str(LOGS[-1]) if LOGS else "what Spark wrote to stderr (in Dagster's UI: the run's stderr)"


def _told(error: BaseException) -> TicdcAssetsError:
    module = type(error).__module__.partition(".")[0]
    if module in _SPARK:
        todo = f"Look at {log_named()}; it is safe to run again."
        return UnexpectedError("Spark", "to finish its work", _spark_kind(error), todo)
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
    return f"{_kind(error)} ({condition})" if condition else _kind(error)


def _kind(error: BaseException) -> str:
    return type(error).__name__


def _place(error: BaseException) -> str:
    """Where in this project the error came up, whatever library it began in."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGE):
            return f"{path.relative_to(_PACKAGE.parent)}:{frame.lineno} in {frame.name}"
    return "this process"
