"""This project's Java class for changes of rows: a call from Python takes longer than all of Java's work for a file.

Janino, with which Spark compiles queries, compiles it once for each JVM.
"""

from __future__ import annotations

import threading
from importlib.resources import files
from typing import Any, Final
from weakref import WeakKeyDictionary

_SOURCE: Final = "RowChanges.java"
_CLASS: Final = "ticdc_assets.RowChanges"
_LOCK: Final = threading.Lock()
_MADE: Final[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()


def row_changes(jvm: Any, of_iceberg: Any) -> Any:
    """The only object of the class in this JVM; `of_iceberg` is any object of a class of Iceberg."""
    with _LOCK:
        if jvm not in _MADE:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(of_iceberg.getClass().getClassLoader())
            compiler.cook(files(__package__).joinpath(_SOURCE).read_text())
            _MADE[jvm] = compiler.getClassLoader().loadClass(_CLASS).newInstance()
        return _MADE[jvm]
