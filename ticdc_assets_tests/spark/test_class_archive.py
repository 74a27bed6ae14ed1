"""The archive of Java's classes: it is made complete or not at all, and one that does not fit changes nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ticdc_assets.errors import MachineError
from ticdc_assets.spark import class_archive
from ticdc_assets.spark.class_archive import archive_of, is_own, java_options, make, options_from
from ticdc_assets_tests.spark.processes import is_alive, waited_for


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real archive, of the classes of a JVM that shows its version, in a folder of a name with all sorts of marks."""
    folder = tmp_path_factory.mktemp("report #1? %41")
    classes, archive = folder / "classes.list", folder / "cache" / "a.jsa"
    java = Path(shutil.which("java") or "java")
    subprocess.run([java, f"-XX:DumpLoadedClassList={classes}", "-version"], check=True, capture_output=True)
    make(archive, classes, java, str(folder / "none.jar"))
    return archive


def started(archive: Path, *more: str, class_path: str | None = None) -> subprocess.CompletedProcess[str]:
    """A JVM that starts with this archive."""
    options = shlex.split(options_from(archive))
    path = class_path or str(archive.parent.parent / "none.jar")
    command = ["java", *options, *more, "-cp", path, "-version"]
    return subprocess.run(command, check=False, capture_output=True, text=True)


# -- the use -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.spark
def test_java_starts_from_the_archive(made: Path):
    assert started(made, "-Xshare:on").returncode == 0


def _flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 0xFF for byte in data[middle : middle + 4096]) + data[middle + 4096 :]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(
    "damage",
    [_flip, lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"no archive" * 1000],
    ids=["flipped bytes", "half of it", "nothing", "another file"],
)
def test_java_starts_without_a_damaged_archive_and_says_nothing(
    damage: Callable[[bytes], bytes], made: Path, tmp_path: Path
):
    usual = subprocess.run(["java", "-version"], check=True, capture_output=True, text=True)
    damaged = tmp_path / "cache" / "a.jsa"
    damaged.parent.mkdir()
    damaged.write_bytes(damage(made.read_bytes()))

    start = started(damaged, class_path=str(made.parent.parent / "none.jar"))

    assert started(damaged, "-Xshare:on", class_path=str(made.parent.parent / "none.jar")).returncode != 0
    assert start.returncode == 0
    assert (start.stdout, start.stderr.splitlines()[0]) == (usual.stdout, usual.stderr.splitlines()[0])
    assert len(start.stderr.splitlines()) == len(usual.stderr.splitlines())


def test_only_an_archive_that_no_other_user_can_write_is_used(tmp_path: Path):
    archive = tmp_path / "a.jsa"
    tmp_path.chmod(0o700)
    assert not is_own(archive)

    archive.touch(mode=0o600)
    assert is_own(archive)
    assert java_options(archive, "-Xa") == f"-Xa {options_from(archive)}"
    archive.chmod(0o620)
    assert not is_own(archive)
    assert java_options(archive, "-Xa") == "-Xa"
    archive.chmod(0o600)
    tmp_path.chmod(0o777)
    assert not is_own(archive)


@pytest.mark.parametrize("written", ["-XX:SharedArchiveFile=/own.jsa", "-Xshare:off"])
def test_an_archive_that_the_user_names_is_not_replaced(written: str, tmp_path: Path):
    tmp_path.chmod(0o700)
    (tmp_path / "a.jsa").touch(mode=0o600)

    assert java_options(tmp_path / "a.jsa", written) == written


def test_another_java_and_other_jars_have_another_archive(tmp_path: Path):
    java, jar = tmp_path / "bin" / "java", tmp_path / "a.jar"
    java.parent.mkdir()
    java.touch()
    jar.touch()
    environ = {"JAVA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    first = archive_of([jar], environ)
    names = {first, archive_of([], environ)}
    jar.write_text("other")
    names.add(archive_of([jar], environ))
    os.utime(jar, ns=(1, 1))
    names.add(archive_of([jar], environ))
    java.write_text("other")
    names.add(archive_of([jar], environ))

    assert first is not None
    assert first.parent == tmp_path / "cache" / "ticdc_assets" / "java"
    assert len(names) == 5
    assert archive_of([jar], environ) in names
    assert archive_of([tmp_path / "gone.jar"], environ) is None
    assert archive_of([jar], {**environ, "XDG_CACHE_HOME": f'{tmp_path}/a"b'}) is None


# -- the making --------------------------------------------------------------------------------------------------------


def fake_java(folder: Path, script: str) -> Path:
    """A Java that does as the script says; `$archive` is where it is to write."""
    java = folder / "java"
    java.write_text(f'#!/bin/sh\nfor a; do case "$a" in *ArchiveFile=*) archive="${{a#*=}}";; esac; done\n{script}\n')
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("script", "found"),
    [('echo half > "$archive"; exit 1', "ended with 1"), ("exit 0", "ended with 0"), ("exec sleep 60", "none after")],
    ids=["it fails", "it writes nothing", "it does not end"],
)
def test_a_java_that_makes_no_archive_leaves_nothing(
    script: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(class_archive, "DUMP_SECONDS_MAX", 1)
    archive = tmp_path / "cache" / "a.jsa"

    with pytest.raises(MachineError, match=found):
        make(archive, tmp_path / "list", fake_java(tmp_path, script), "x.jar")

    assert list(archive.parent.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_an_error_with_advice(tmp_path: Path):
    (tmp_path / "cache").write_text("a file")

    with pytest.raises(MachineError, match="XDG_CACHE_HOME"):
        make(tmp_path / "cache" / "java" / "a.jsa", tmp_path / "list", fake_java(tmp_path, "exit 0"), "x.jar")


def test_an_archive_appears_complete_beside_those_of_other_versions(tmp_path: Path):
    folder = tmp_path / "cache"
    for number in range(5):
        archive = folder / f"{number}.jsa"
        make(archive, tmp_path / "list", fake_java(tmp_path, 'echo all > "$archive"'), "x.jar")
        os.utime(archive, (number, number))

    assert is_own(folder / "4.jsa")
    assert sorted(path.name for path in folder.iterdir()) == ["2.jsa", "3.jsa", "4.jsa"]


MAKE = """
import sys
from pathlib import Path
from ticdc_assets.spark.class_archive import make

folder = Path(sys.argv[1])
make(folder / "cache" / "a.jsa", folder / "list", folder / "java", "x.jar")
"""


def test_no_java_stays_where_the_process_that_makes_the_archive_is_killed(tmp_path: Path):
    fake_java(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60")
    child = subprocess.Popen([sys.executable, "-c", MAKE, str(tmp_path)])
    assert waited_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())

    child.kill()
    child.wait()

    pid = int((tmp_path / "pid").read_text())
    assert waited_for(lambda: not is_alive(pid), 10)


def test_what_a_killed_process_left_long_ago_is_removed(tmp_path: Path):
    long_ago, now = tmp_path / "cache" / "making-1", tmp_path / "cache" / "making-2"
    for folder in (long_ago, now):
        folder.mkdir(parents=True)
    os.utime(long_ago, (1, 1))

    make(tmp_path / "cache" / "a.jsa", tmp_path / "list", fake_java(tmp_path, 'echo all > "$archive"'), "x.jar")

    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["a.jsa", "making-2"]
