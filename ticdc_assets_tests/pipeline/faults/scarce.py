"""Machines that lack something: a disk that is full or cannot be written, files that may not grow or be opened, rights.

Each is a process of its own that takes it from itself, so that no other notices. Where a machine does not let a process
have a file system of its own, `own_disk` says so.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ticdc_assets_tests.apart import apart

_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_CAPABILITIES_V3 = 0x20080522
_IGNORES_MODES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE, _LAZY = 1, 32, 1 << 12, 1 << 14, 1 << 18, 2


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(target: Path, flags: int, source: Path = Path("none"), options: bytes | None = None) -> None:
    if _libc().mount(bytes(source), bytes(target), b"tmpfs" if options else None, flags, options):
        raise OSError(ctypes.get_errno(), "mount")


def own_disk(folder: Path, size_bytes: int) -> None:
    """Mounts an empty disk of a size at a folder, which only this process has. Raises OSError where it may not."""
    user, group = os.getuid(), os.getgid()
    if _libc().unshare(_NEW_USER | _NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount(Path("/"), _PRIVATE | _RECURSIVE)
    _mount(folder, 0, options=b"size=%d" % size_bytes)


def may_have_own_disk(folder: Path) -> bool:
    """Whether this machine lets processes mount disks of their own."""
    try:
        apart(own_disk, folder, 1 << 20)
    except AssertionError:
        return False
    return True


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Leaves no room on the disk of a folder."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as stream:
        for size_bytes in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while stream.write(b"x" * size_bytes):
                    pass
    yield
    filler.unlink()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Lets nothing be written below a folder, whoever has files open there."""
    _mount(folder, _BIND, source=folder)
    _mount(folder, _BIND | _REMOUNT | _READ_ONLY, source=folder)
    yield
    if _libc().umount2(bytes(folder), _LAZY):
        raise OSError(ctypes.get_errno(), "umount")


@contextmanager
def small_files(folder: Path) -> Iterator[None]:
    """Lets no file grow beyond a few hundred bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def few_open_files(folder: Path) -> Iterator[None]:
    """Lets no further file be opened."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = os.open(folder, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (held + 1, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    os.close(held)


def without_rights() -> None:
    """Drops the capability by which root reads and writes any file: from here on a file's mode counts."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    held = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, for capabilities 0 to 31 and 32 to 63
    if _libc().capget(header, held):
        raise OSError(ctypes.get_errno(), "capget")
    for n in range(3):
        held[n] &= ~_IGNORES_MODES
    if _libc().capset(header, held):
        raise OSError(ctypes.get_errno(), "capset")
