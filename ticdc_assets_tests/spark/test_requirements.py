"""What Spark requires of the machine, and the sentence for each requirement that is missing."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from ticdc_assets.errors import EngineError, MachineError
from ticdc_assets.spark import requirements
from ticdc_assets.spark.requirements import require_java, require_user


def java_home(folder: Path, script: str, mode: int = 0o755) -> dict[str, str]:
    """A Java that does as the script says, named by JAVA_HOME."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(script)
    java.chmod(mode)
    return {"JAVA_HOME": str(folder), "PATH": os.environ["PATH"]}


@pytest.mark.parametrize("version", ["17.0.2", "21", "25-ea"])
def test_a_java_that_is_new_enough_is_taken(version: str, tmp_path: Path):
    require_java(java_home(tmp_path, f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n"))


def test_a_java_that_fits_is_started_once_and_a_new_one_again(tmp_path: Path):
    started = tmp_path / "started"
    script = f"#!/bin/sh\necho . >> {started}\necho 'openjdk version \"21\"' >&2\n"
    environ = java_home(tmp_path, script)

    require_java(environ)
    require_java(environ)
    once = started.read_text()
    os.utime(tmp_path / "bin" / "java", ns=(1, 1))
    require_java(environ)

    assert (once, started.read_text()) == (".\n", ".\n.\n")


@pytest.mark.parametrize(
    ("script", "mode", "found"),
    [
        ("#!/bin/sh\necho 'java version \"1.8.0_402\"' >&2\n", 0o755, "version 8 ({java})"),
        ("#!/bin/sh\necho nothing\n", 0o755, "{java}, which shows no version"),
        ("#!/bin/sh\n", 0o644, "{java}, which cannot be started (Permission denied)"),
        ("not a program", 0o755, "{java}, which cannot be started (Exec format error)"),
    ],
)
def test_a_java_that_spark_cannot_use_is_named(script: str, mode: int, found: str, tmp_path: Path):
    with pytest.raises(MachineError) as refused:
        require_java(java_home(tmp_path, script, mode))

    assert refused.value.found == found.format(java=tmp_path / "bin" / "java")
    assert "or unset JAVA_HOME" in refused.value.advice


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("exec sleep 5", "{java}, which does not answer within 1 s"),
        ("kill -9 $$", "signal 9, which ended {java}"),
        ("exit 137", "signal 9, which ended {java}"),
    ],
)
def test_a_java_that_was_killed_or_is_slow_may_be_tried_again(
    line: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(requirements, "JAVA_SECONDS_MAX", 1)

    with pytest.raises(EngineError) as ended:
        require_java(java_home(tmp_path, f"#!/bin/sh\n{line}\n"))

    assert ended.value.found == found.format(java=tmp_path / "bin" / "java")


def test_a_missing_java_home_is_distinguished_from_no_java(tmp_path: Path):
    gone = tmp_path / "gone"

    with pytest.raises(MachineError, match=rf"found no {gone}/bin/java\. .* unset JAVA_HOME"):
        require_java({"JAVA_HOME": str(gone), "PATH": os.environ["PATH"]})
    with pytest.raises(MachineError, match=r"found none on the PATH\.") as without:
        require_java({"PATH": str(tmp_path)})
    assert "JAVA_HOME" not in without.value.advice


def test_a_user_without_a_name_is_reported(monkeypatch: pytest.MonkeyPatch):
    require_user()

    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(MachineError, match=r"expected a name, which Java asks for, found none in /etc/passwd"):
        require_user()
