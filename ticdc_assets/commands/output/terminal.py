"""Output for the user: progress on stderr, results on stdout, the output of Spark and Dagster in a file.

On a terminal, progress is one line with a rate and the time left. It is not shown on other outputs. JSON is printed
unformatted on any output.
"""

from __future__ import annotations

import io
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, Final, TypeVar, cast

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from ticdc_assets.commands.output.each import EXIT_NOT_READ
from ticdc_assets.commands.output.progress import Stage
from ticdc_assets.errors import LakeError
from ticdc_assets.faults import LOGS
from ticdc_assets.printable import printable
from ticdc_assets.tso import is_tso, to_datetime
from ticdc_assets.work_progress import Count

T = TypeVar("T")

PLAIN_WIDTH: Final = 140
_SPINNER_CELLS: Final = 3
_REFRESHES_PER_S: Final = 12.5
LOG_BYTES_MAX: Final = 8 << 20
"""A longer log is renamed to FILE.old before more is written; an older FILE.old is replaced."""
GAP: Final = "  "
_INDENT: Final = "    "
_LAST_WIDTH_MIN: Final = 24


class Terminal:
    """Standard output and error as they were on creation, also if they are redirected later."""

    def __init__(self) -> None:
        self._out_file, self._err_file = _kept(sys.stdout), _kept(sys.stderr)
        self.out, self.err = _console(self._out_file), _console(self._err_file)
        self._spinner: Spinner | None = None
        self._stage: Stage | None = None

    def on_progress(self, update: str | Count) -> None:
        """Show that a stage begins, or how far it is. Shows nothing outside `working`, or if standard error is not a
        terminal."""
        if self._spinner is None or self._stage is None:
            return
        if isinstance(update, Count):
            self._stage.reached(update)
        else:
            self._stage = Stage(update, self._width)
            self._spinner.update(text=self._stage)

    def note(self, text: str) -> None:
        """Print a sentence to stderr."""
        self.err.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def result(self, text: str, style: str | None = None) -> None:
        """Print a sentence of the result to stdout; `style` is one of rich's."""
        with self._writing():
            self.out.print(printable(text), style=style, markup=False, highlight=False, soft_wrap=True)

    def lines(self, text: str) -> None:
        """Print a result of several lines to stdout."""
        for line in text.split("\n"):
            self.result(line)

    def json_line(self, value: Any, default: Callable[[Any], Any] | None = None) -> None:
        """Print a JSON value as one line; `default` gives the JSON form of other values."""
        self._print(printable(json.dumps(value, ensure_ascii=False, default=default)))

    def columns(self, names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
        """Print rows in columns to stdout. If stdout is not a terminal, each row is one line."""
        width = self.out.width if self.out.is_terminal else None
        shown = [[printable(cell) for cell in row] for row in rows]
        for line in in_columns(names, shown, width, right):
            self.result(line)

    def json(self, value: Any) -> None:
        """Print a JSON value to stdout, indented, over several lines."""
        self._print("\n".join(map(printable, json.dumps(value, ensure_ascii=False, indent=1).split("\n"))))

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Show progress while the body runs: a line on a terminal, nothing elsewhere.

        Rich shows what is written to `sys.stdout` and `sys.stderr` above the line, except where a log receives it.
        """
        if not self.err.is_terminal:
            yield
            return
        try:
            self._stage = Stage(text, self._width)
            self._spinner = Spinner("dots", text=self._stage, style="status.spinner")
            shows = not LOGS
            with Live(
                self._spinner,
                console=self.err,
                refresh_per_second=_REFRESHES_PER_S,
                transient=True,
                redirect_stdout=shows,
                redirect_stderr=shows,
            ):
                yield
        finally:
            self._spinner = self._stage = None

    def waiting(self, text: str, items: Iterable[T]) -> Iterator[T]:
        """The items, with progress while the next one is awaited. Between two items, results may be printed."""
        found = iter(items)
        while True:
            with self.working(text):
                try:
                    item = next(found)
                except StopIteration:
                    return
            yield item

    def _print(self, text: str) -> None:
        with self._writing():
            print(text, file=self._out_file, flush=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Let an error of the system name standard output: the user has given no file."""
        try:
            yield
        except BrokenPipeError:
            _forget_unwritten(self._out_file)
            raise
        except OSError as error:
            _forget_unwritten(self._out_file)
            found = os.strerror(error.errno) if error.errno else type(error).__name__
            advice = "Free space where the output goes, or send it elsewhere; then run the command again."
            raise LakeError("standard output", "to write the result there", found, advice) from None

    def _width(self) -> int:
        """The cells of a line after the spinner. Rich asks standard error, which may be redirected by then."""
        try:
            columns = os.get_terminal_size(self._err_file.fileno()).columns
        except (OSError, ValueError, io.UnsupportedOperation):
            columns = self.err.width
        return max(min(columns or self.err.width, self.err.width) - _SPINNER_CELLS, 1)


class _Console(Console):
    """A console that ends the process with this project's exit code where its reader has ended; rich does with 1."""

    def on_broken_pipe(self) -> None:
        """Leave the broken pipe. No command that goes on after an error goes on after this."""
        _forget_unwritten(self.file)
        try:
            super().on_broken_pipe()
        except SystemExit:
            raise SystemExit(EXIT_NOT_READ) from None


def _console(file: IO[str]) -> Console:
    terminal = file.isatty()
    return _Console(file=file, width=None if terminal else PLAIN_WIDTH, soft_wrap=not terminal)


def _kept(stream: IO[str]) -> IO[str]:
    """A duplicate of the stream's descriptor, which outlives a redirection; a stream without descriptor is returned."""
    try:
        number = os.dup(stream.fileno())
    except (OSError, ValueError, io.UnsupportedOperation):
        return stream
    return cast(IO[str], os.fdopen(number, "w", encoding="utf-8", errors="replace", buffering=1))


def _forget_unwritten(stream: IO[str]) -> None:
    """Empty the buffer of a stream that cannot be written: Python writes it again when the process ends."""
    with suppress(OSError, io.UnsupportedOperation):
        number = stream.fileno()
        kept, null = os.dup(number), os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, number)
            stream.flush()
        finally:
            os.dup2(kept, number)
            os.close(kept)
            os.close(null)


# -- output of Spark and Dagster ---------------------------------------------------------------------------------------


@contextmanager
def noise_kept_in(log: Path) -> Iterator[None]:
    """Redirect standard output and error of this process and its JVM to the end of `log`.

    If `log` cannot be written, a temporary file is used. Errors name the file.
    """
    with _opened(log) as sink:
        place = Path(sink.name)
        with _redirected_to(sink):
            LOGS.append(place)
            try:
                yield
            finally:
                LOGS.pop()
    if place != log:
        _remove_if_empty(place)


@contextmanager
def _redirected_to(sink: IO[bytes]) -> Iterator[None]:
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    os.dup2(sink.fileno(), 1)
    os.dup2(sink.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, kept in enumerate(saved, start=1):
            os.dup2(kept, number)
            os.close(kept)


def _remove_if_empty(place: Path) -> None:
    with suppress(OSError):  # it may have been removed meanwhile
        if not place.stat().st_size:
            place.unlink()


def _opened(log: Path) -> IO[bytes]:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
            log.replace(log.with_name(f"{log.name}.old"))
        opened = log.open("ab", buffering=0)
        opened.write(f"== {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n".encode())
    except OSError:  # the config's folder may be read-only
        return cast(IO[bytes], NamedTemporaryFile("ab", prefix="ticdc-assets-", suffix=f"-{log.name}", delete=False))
    return opened


# Rows in columns, as plain lines that never break a word.
#
# On a terminal that is too narrow, the last column is wrapped at spaces. Where that leaves it too little room, as
# many columns as fit stand beside each other, and further lines below each row have its other cells, each after the
# name of its column.


def in_columns(
    names: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, right: Sequence[str] = ()
) -> list[str]:
    """A line of the names, and the lines of each row. Widths are in terminal cells; None is a width without limit.

    Args:
        right: the names of columns that are aligned to the right.
    """
    widths = [max(cell_len(text) for text in column) for column in zip(names, *rows, strict=True)]
    before_last = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    sides = [name in right for name in names]
    if width is None or before_last + min(widths[-1], _LAST_WIDTH_MIN) <= width:
        return [line for row in (names, *rows) for line in _aligned(row, widths, sides, before_last, width)]
    return _stacked(names, rows, widths, sides, width)


def _aligned(
    row: Sequence[str], widths: Sequence[int], sides: Sequence[bool], before_last: int, width: int | None
) -> Iterator[str]:
    cells = [_padded(*cell) for cell in zip(row[:-1], widths[:-1], sides[:-1], strict=True)]
    if sides[-1]:
        yield GAP.join([*cells, _padded(row[-1], widths[-1], True)])
        return
    first, *others = _wrapped(row[-1], None if width is None else width - before_last)
    yield GAP.join([*cells, first]).rstrip()
    for other in others:
        yield " " * before_last + other


def _stacked(
    names: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], sides: Sequence[bool], width: int
) -> list[str]:
    ends = list(accumulate(wide + len(GAP) for wide in widths))
    count = max(sum(end - len(GAP) <= width for end in ends), 1)
    lines = []
    for row in (names, *rows):
        cells = zip(row[:count], widths[:count], sides[:count], strict=True)
        lines.append(GAP.join(_padded(*cell) for cell in cells).rstrip())
        if row is not names:
            named = [f"{name}: {text}" for name, text in zip(names[count:], row[count:], strict=True) if text]
            lines += [
                _INDENT + line for text in _together(named, width) for line in _wrapped(text, width - len(_INDENT))
            ]
    return lines


def _together(texts: Sequence[str], width: int) -> Iterator[str]:
    """The texts, as many in one line as fit."""
    line = ""
    for text in texts:
        longer = f"{line}{GAP}{text}" if line else text
        if line and cell_len(longer) > width - len(_INDENT):
            yield line
            longer = text
        line = longer
    if line:
        yield line


def _padded(text: str, width: int, to_the_right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if to_the_right else text + space


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def moment(tso: int) -> str:
    """A TSO with its time; without commit_ts in the stream, a count of messages."""
    return f"{tso} ({when(tso)} UTC)" if is_tso(tso) else f"message {tso}"


def when(tso: int) -> str:
    """The time of a TSO, or the count of messages; empty for 0."""
    if is_tso(tso):
        return f"{to_datetime(tso):%Y-%m-%d %H:%M:%S}"
    return f"message {tso}" if tso else ""
