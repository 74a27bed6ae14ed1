"""Java keeps its temporary files where Python does, also if the name of the folder has a space."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from ticdc_assets import spark
from ticdc_assets.config import load
from ticdc_assets.spark.jvm import jvm_property
from ticdc_assets_tests.apart import apart
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake


@pytest.mark.spark
def test_java_uses_the_folder_for_temporary_files_of_python(tmp_path: Path):
    folder = tmp_path / "for files"
    folder.mkdir()
    config = FeedLake(workloads("storage-csv")[0], tmp_path / "lake").config.path

    assert apart(_temporary_folder_of_java, config, folder) == str(folder)


def _temporary_folder_of_java(config: Path, folder: Path) -> str:
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    spark.session(load(config, {}))
    found = jvm_property("java.io.tmpdir")
    spark.stop()
    return found
