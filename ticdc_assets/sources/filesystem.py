"""A bucket or folder for reading, with one interface for local folders, pyarrow's file systems and fsspec's.

A URI, also one in TiCDC's form, gives a `Root`, which reads, lists and measures objects by POSIX paths relative to it.
Names are raw: percent signs, spaces and quotes have no special meaning. Nothing outside the root can be reached,
neither by `..` nor by a link. A Root can be pickled; its copy opens the URI again. A missing object is NotYetError,
since it may appear or disappear between a listing and a read. A root that is missing or not accessible is SourceError.
No message contains the query or the credentials of a URI.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import pyarrow.fs as pafs

from ticdc_assets.config.model.object_store import PYARROW_ADVICE
from ticdc_assets.errors import NotYetError, SourceError
from ticdc_assets.store_answers import advice_for, store_code

REQUESTS_AT_ONCE: Final = 16
"""Concurrent requests to a remote store; each takes tens of milliseconds."""

_COPY_BYTES: Final = 8 << 20
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_LOCAL_SCHEMES: Final = ("file", "local")
_NO_BUCKET: Final = "Check the name of the bucket and the endpoint of its store."

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class OutsideError(SourceError):
    """Raised when a path leads out of the root; only the object at that path is unreadable."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder; `outside` marks a link that leaves the root and is not followed."""

    name: str
    is_dir: bool
    size: int
    outside: bool = False


class Root(ABC):
    """The folder of a changefeed's objects. `name` is its URI for error messages; `remote` means slow requests."""

    name: str
    remote: bool

    @abstractmethod
    def read_bytes(self, path: str, limit: int | None = None) -> bytes:
        """The whole object; an object of more than `limit` bytes is refused before it is in memory."""

    def read_small(self, paths: Sequence[str], limit: int) -> list[bytes]:
        """The whole of several objects of one folder, each of at most `limit` bytes."""
        return self.map(lambda path: self.read_bytes(path, limit), paths)

    @abstractmethod
    def list_dir(self, path: str) -> list[Entry]:
        """The direct content of a folder, by name."""

    @abstractmethod
    def sizes(self, paths: Sequence[str]) -> dict[str, int | None]:
        """The size of each object in bytes, None if there is no such object."""

    @abstractmethod
    def local_path(self, path: str) -> Path | None:
        """The object as a local file, None if it is not one."""

    @abstractmethod
    def fetch_to(self, path: str, target: Path) -> None:
        """Copy the object to a local file, in pieces of bounded size."""

    def map(self, work: Callable[[_In], _Out], items: Iterable[_In]) -> list[_Out]:
        """The results of `work` in the order of `items`; concurrent on a remote store."""
        if not self.remote:
            return [work(item) for item in items]
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            return list(pool.map(work, items))

    def where(self, path: str) -> str:
        """A position below this root, for error messages."""
        return f"{self.name.rstrip('/')}/{path}"


def open_root(uri: str) -> Root:
    """The root at a folder's path or a URI. Raises SourceError if it is missing or no folder."""
    parts = urlsplit(uri) if _SCHEME.match(uri) else None
    is_local = parts is None or parts.scheme.lower() in _LOCAL_SCHEMES
    if parts is not None and is_local and parts.netloc not in ("", "localhost"):
        raise SourceError(shown_uri(parts), "a path on this machine", "a host name", "Write file:/// before the path.")
    folder = Path(uri).expanduser() if parts is None else Path(unquote(parts.path))
    root: Root = LocalRoot(folder.resolve()) if is_local else RemoteRoot(uri)
    try:
        root.list_dir("")
    except NotYetError:
        advice = "Check the URI, and that the changefeed has written something."
        raise SourceError(root.name, "an existing folder or bucket", "nothing of that name", advice) from None
    return root


class LocalRoot(Root):
    """A folder of this machine. `base` is resolved, `name` is its text."""

    remote = False

    def __init__(self, base: Path) -> None:
        self.base = base
        self.name = str(base)

    def read_bytes(self, path: str, limit: int | None = None) -> bytes:
        """See `Root`. Raises NotYetError where the file is missing."""
        with _translated(self.where(path)), self._inside(path).open("rb") as stream:
            return _bounded(stream.read(-1 if limit is None else limit + 1), limit, self.where(path))

    def read_small(self, paths: Sequence[str], limit: int) -> list[bytes]:
        """See `Root`. The links of the folder are resolved once: for each file that takes longer than reading it."""
        folder = self._inside(paths[0].rpartition("/")[0])
        return [self._read_below(folder, path, limit) for path in paths]

    def _read_below(self, folder: Path, path: str, limit: int) -> bytes:
        name = _checked(path, self.name).rpartition("/")[2]
        with _translated(self.where(path)):
            try:
                file = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                return self.read_bytes(path, limit)  # a link, which may leave the root
            with FileIO(file, "rb") as stream:
                data = stream.read(limit + 1)
                while len(data) <= limit and (more := stream.read(limit + 1 - len(data))):
                    data += more
            return _bounded(data, limit, self.where(path))

    def list_dir(self, path: str) -> list[Entry]:
        """See `Root`. A link that leaves the folder is an entry with `outside`."""
        with _translated(self.where(path)), os.scandir(self._inside(path)) as found:
            entries = [self._entry(item) for item in found]
        return sorted((e for e in entries if e is not None), key=lambda e: e.name)

    def sizes(self, paths: Sequence[str]) -> dict[str, int | None]:
        """See `Root`. Each size is one request to the file system."""
        return {path: self._size(path) for path in paths}

    def local_path(self, path: str) -> Path | None:
        """The path with its links resolved. Raises OutsideError where it leaves the folder."""
        return self._inside(path)

    def fetch_to(self, path: str, target: Path) -> None:
        """See `Root`. Raises NotYetError where the file is missing."""
        with _translated(self.where(path)):
            shutil.copyfile(self._inside(path), target)

    def _size(self, path: str) -> int | None:
        try:
            with _translated(self.where(path)):
                status = self._inside(path).stat()
        except NotYetError:
            return None
        return status.st_size if S_ISREG(status.st_mode) else None

    def _entry(self, item: os.DirEntry[str]) -> Entry | None:
        try:
            if item.is_symlink() and not _leads_below(Path(item.path), self.base):
                return Entry(item.name, is_dir=False, size=0, outside=True)
            return Entry(item.name, item.is_dir(), 0 if item.is_dir() else item.stat().st_size)
        except FileNotFoundError:
            return None

    def _inside(self, path: str) -> Path:
        target = self.base / _checked(path, self.name)
        if _leads_below(target, self.base):
            return target
        raise OutsideError(self.where(path), "a path inside the root", "a link that leaves it", "Remove the link.")


class RemoteRoot(Root):
    """A bucket, or a folder in it, through pyarrow's file systems or, for other schemes, fsspec's."""

    remote = True

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        self._uri = uri
        self.name = shown_uri(parts)
        with _translated(self.name):
            self._filesystem, self._base = filesystem_of(uri, parts)

    def __reduce__(self) -> tuple[type[RemoteRoot], tuple[str]]:
        return RemoteRoot, (self._uri,)

    def __repr__(self) -> str:
        return f"RemoteRoot({self.name!r})"

    def read_bytes(self, path: str, limit: int | None = None) -> bytes:
        """See `Root`. At most `limit` + 1 bytes are read from the store."""
        with _translated(self.where(path)), self._filesystem.open_input_stream(self._absolute(path)) as stream:
            return _bounded(bytes(stream.read(None if limit is None else limit + 1)), limit, self.where(path))

    def list_dir(self, path: str) -> list[Entry]:
        """See `Root`. The marker object of the folder itself is left out."""
        folder = self._absolute(path)
        with _translated(self.where(path)):
            found = self._filesystem.get_file_info(pafs.FileSelector(folder, recursive=False))
        entries = (
            Entry(i.base_name, i.type == pafs.FileType.Directory, i.size or 0) for i in found if i.path != folder
        )
        return sorted((e for e in entries if e.name), key=lambda e: e.name)

    def sizes(self, paths: Sequence[str]) -> dict[str, int | None]:
        """See `Root`. All sizes are requested together."""
        if not paths:
            return {}
        with _translated(self.name):
            found = self._filesystem.get_file_info([self._absolute(path) for path in paths])
        return {path: i.size if i.type == pafs.FileType.File else None for path, i in zip(paths, found, strict=True)}

    def local_path(self, path: str) -> Path | None:
        """None: an object of a store is no local file."""
        return None

    def fetch_to(self, path: str, target: Path) -> None:
        """See `Root`. Raises NotYetError where the object is missing."""
        with (
            _translated(self.where(path)),
            self._filesystem.open_input_stream(self._absolute(path)) as source,
            target.open("wb") as copy,
        ):
            shutil.copyfileobj(source, copy, _COPY_BYTES)

    def _absolute(self, path: str) -> str:
        return "/".join(part for part in (self._base, _checked(path, self.name)) if part)


def _leads_below(path: Path, base: Path) -> bool:
    """Whether a path stays below a folder when its links are resolved; False for a cycle of links."""
    try:
        return path.resolve().is_relative_to(base)
    except (RuntimeError, OSError):
        return False


def _checked(path: str, root: str) -> str:
    parts = path.split("/")
    if path and ("" in parts or "." in parts or ".." in parts or "\0" in path):
        advice = "Nothing outside the root is read: check where this path comes from."
        raise OutsideError(root, "a path inside the root", ascii(path), advice)
    return path


def _bounded(data: bytes, limit: int | None, where: str) -> bytes:
    if limit is None or len(data) <= limit:
        return data
    raise SourceError(where, f"at most {limit} bytes", "more", "This is not a file of TiCDC's: move it away.")


@contextmanager
def _translated(where: str) -> Iterator[None]:
    """Convert errors of file systems to this project's errors, without their texts, which may hold signed URLs."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise NotYetError(where, "a file or folder", "none", "The next run looks for it again.") from None
    except PermissionError:
        advice = "Give this process the right to read and list there."
        raise SourceError(where, "permission to read", "none", advice) from None
    except ImportError as error:
        if error.name is None:  # pyarrow raises this if its build lacks a component
            raise SourceError(where, "a pyarrow with this store", "one without", PYARROW_ADVICE) from None
        found = f"no package {error.name}"
        raise SourceError(where, "a file system for this scheme", found, f'Run "pip install {error.name}".') from None
    except ValueError:
        raise SourceError(where, "options that the store takes", "others", "Check the URI's parameters.") from None
    except OSError as error:
        found = store_code(error) or error.strerror or type(error).__name__
        known = _NO_BUCKET if found == "NO_SUCH_BUCKET" else advice_for(found)
        advice = f"{known or 'Check the credentials and the network.'} Then run again."
        raise SourceError(where, "an answer of the store", found, advice) from None


_SCHEME_NAMES: Final = {"gcs": "gs", "azure": "abfs", "azblob": "abfs"}


def shown_uri(parts: SplitResult) -> str:
    """A URI without user, password and query."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def filesystem_of(uri: str, parts: SplitResult) -> tuple[Any, str]:
    """The file system and the root's path in it. TiCDC's sink URIs have credentials and endpoints in their query."""
    scheme = parts.scheme.lower()
    scheme = _SCHEME_NAMES.get(scheme, scheme)
    options = dict(parse_qsl(parts.query))
    path = f"{parts.netloc.rpartition('@')[2]}{unquote(parts.path)}".strip("/")
    s3 = _s3_options(options, parts) if scheme == "s3" else {}
    if s3:
        return pafs.S3FileSystem(**s3), path
    if scheme in ("abfs", "abfss") and "account-name" in options:
        container, at, _ = parts.netloc.rpartition("@")
        inside = f"{container}{unquote(parts.path)}".strip("/") if at else path
        return pafs.AzureFileSystem(**_azure_options(options)), inside
    if scheme == "gs" and "endpoint" in options:
        protocol, _, host = options["endpoint"].rpartition("://")
        return pafs.GcsFileSystem(endpoint_override=host.rstrip("/"), scheme=protocol or "https"), path
    plain = f"{scheme}://{parts.netloc}{parts.path}"
    try:
        filesystem, base = pafs.FileSystem.from_uri(plain)
    except ValueError:  # pyarrow's ArrowInvalid: an unknown scheme
        return _fsspec(plain, shown_uri(parts))
    return filesystem, base.strip("/")


def _s3_options(options: dict[str, str], parts: SplitResult) -> dict[str, Any]:
    """The options in the URI, under TiCDC's names or pyarrow's; empty if the environment decides."""
    endpoint = options.get("endpoint") or options.get("endpoint_override") or ""
    scheme, _, host = endpoint.rpartition("://")
    chosen = {
        "access_key": options.get("access-key") or (parts.username and unquote(parts.username)),
        "secret_key": options.get("secret-access-key") or (parts.password and unquote(parts.password)),
        "session_token": options.get("session-token"),
        "region": options.get("region"),
        "endpoint_override": host.rstrip("/"),
        "scheme": scheme or options.get("scheme"),
        "force_virtual_addressing": options.get("force-path-style") == "false",
    }
    return {name: value for name, value in chosen.items() if value}


def _azure_options(options: dict[str, str]) -> dict[str, str]:
    names = {"account-name": "account_name", "account-key": "account_key", "sas-token": "sas_token"}
    return {option: options[name] for name, option in names.items() if name in options}


def _fsspec(uri: str, shown: str) -> tuple[Any, str]:
    try:
        filesystem, base = importlib.import_module("fsspec.core").url_to_fs(uri)
    except ValueError:
        advice = "Use a folder, file://, s3://, gs:// or abfs://, or install the fsspec package for this scheme."
        raise SourceError(shown, "a scheme that pyarrow or fsspec knows", "another", advice) from None
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem)), str(base).strip("/")
