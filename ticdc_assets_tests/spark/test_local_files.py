"""Local files that Java writes: no process is started for them, and their permissions are those of Python's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets import spark
from ticdc_assets.spark.start import write_files_without_processes
from ticdc_assets_tests.pipeline.small_feeds import Sink

pytestmark = pytest.mark.spark


def processes_started() -> int:
    """How many processes this machine has started since it is up."""
    return next(int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if "processes" in line)


@pytest.fixture
def session(tmp_path: Path):
    return spark.session(Sink(tmp_path / "bucket").feed(tmp_path / "lake").lake.config)


def test_a_file_of_java_has_the_permissions_of_one_of_python_and_no_checksums(session, tmp_path: Path):
    jvm = session.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}/java/file")

    path.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()).create(path, False).close()

    (tmp_path / "java" / "of_python").write_bytes(b"")
    assert {file.name for file in (tmp_path / "java").iterdir()} == {"file", "of_python"}
    assert (tmp_path / "java" / "file").stat().st_mode == (tmp_path / "java" / "of_python").stat().st_mode


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the system does not count processes")
def test_java_starts_no_process_for_a_file(session, tmp_path: Path):
    jvm = session.sparkContext._jvm
    conf = session.sparkContext._jsc.hadoopConfiguration()

    def files(folder: str) -> int:
        """The processes that the machine starts while Java writes 40 files; the smallest of five, since others start
        some too."""
        counts = []
        for turn in range(5):
            before = processes_started()
            for number in range(40):
                path = jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}/{folder}/{turn}-{number}")
                path.getFileSystem(conf).create(path, False).close()
            counts.append(processes_started() - before)
        return min(counts)

    assert files("java") < 40


def test_a_file_system_that_the_settings_name_stays(session):
    conf = session.sparkContext._jsc.hadoopConfiguration()
    root = session.sparkContext._jvm.java.net.URI.create("file:///")
    systems = session.sparkContext._jvm.org.apache.hadoop.fs.FileSystem
    present = systems.get(root, conf)
    conf.set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    try:
        write_files_without_processes(session)

        assert systems.get(root, conf).equals(present)
    finally:
        conf.unset("fs.file.impl")
