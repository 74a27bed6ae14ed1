"""The classes and frames of an error, in Python and Java, without its messages.

Messages of libraries may quote rows or credentials (guarantee G8); names of classes, functions and files do not.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

FRAMES_MAX: Final = 40
"""Frames of one error; the innermost are kept."""
CAUSES_MAX: Final = 8


def frames_of(error: BaseException) -> str:
    """The error, its causes, and its Java side, innermost frame first."""
    return "\n".join(line for cause in causes_of(error) for line in _python(cause))


def causes_of(error: BaseException) -> list[BaseException]:
    """The error and its chain of causes and contexts."""
    found: list[BaseException] = []
    seen: BaseException | None = error
    while seen is not None and len(found) < CAUSES_MAX and seen not in found:
        found.append(seen)
        seen = seen.__cause__ or seen.__context__
    return found


def java_classes(error: BaseException) -> list[str]:
    """The Java classes of the error and its causes; empty for an error that is not Java's."""
    return [name for thrown in _thrown(error) if (name := _asked(lambda: thrown.getClass().getName()))]  # noqa: B023


def java_messages(error: BaseException) -> list[str]:
    """The Java messages of the error, only to be searched, never to be shown."""
    return [_asked(lambda: thrown.getMessage() or "") for thrown in _thrown(error)]  # noqa: B023


def java_place(error: BaseException) -> str:
    """The innermost Java class and its first frame, as in `ValidationException at Schema.java:12`."""
    thrown = _thrown(error)
    if not thrown:
        return ""
    frames = list(_java_frames(thrown[-1]))
    name = _asked(lambda: thrown[-1].getClass().getSimpleName())
    return f"{name} at {frames[0].partition('(')[2].rstrip(')')}" if frames else name


def _python(error: BaseException) -> Iterator[str]:
    yield f"{type(error).__module__}.{type(error).__qualname__}"
    frames = list(reversed(traceback.extract_tb(error.__traceback__)))
    yield from (f"    at {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames[:FRAMES_MAX])
    for thrown in _thrown(error):
        yield f"  {_asked(lambda: thrown.getClass().getName())}"  # noqa: B023
        yield from (f"    at {frame}" for frame in _java_frames(thrown))


def _asked(question: Callable[[], object]) -> str:
    """The answer of Java; empty if it does not respond any more."""
    try:
        return str(question())
    except Exception:  # noqa: BLE001  the JVM may be gone
        return ""


def _thrown(error: BaseException) -> list[Any]:
    """The Java error and its causes; empty if Java does not respond any more."""
    found: list[Any] = []
    known = vars(error)
    thrown = known.get("_origin") or known.get("java_exception")  # the names in PySpark and py4j
    try:
        while thrown is not None and len(found) < CAUSES_MAX:
            found.append(thrown)
            thrown = thrown.getCause()
    except Exception:  # noqa: BLE001  the JVM may be gone, and the frames are only additional information
        return found
    return found


def _java_frames(thrown: Any) -> Iterator[str]:
    try:
        frames = [str(frame.toString()) for frame in thrown.getStackTrace()[:FRAMES_MAX]]
    except Exception:  # noqa: BLE001  as above
        return
    yield from frames
