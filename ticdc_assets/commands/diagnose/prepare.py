"""`ticdc-assets doctor --prepare`: makes the archive from which Java starts.

It loads the sample into a lake in a temporary folder while Java lists its classes, then lets another JVM write the
archive. Both JVMs end before the command does.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ticdc_assets import spark
from ticdc_assets.commands.demo.command import prepare as prepare_sample
from ticdc_assets.commands.output.terminal import Terminal
from ticdc_assets.commands.process.run import run_all
from ticdc_assets.config import load
from ticdc_assets.errors import MachineError
from ticdc_assets.spark import class_archive
from ticdc_assets.spark.jvm import end_jvm, jvm_property
from ticdc_assets.spark.requirements import require_java
from ticdc_assets.spark.settings import is_local
from ticdc_assets.spark.start import java_start

if TYPE_CHECKING:
    from ticdc_assets.config import Config

CHANGEFEED: Final = "storage_csv"
"""The changefeed of the sample that is loaded: it needs no other service."""

_END_SECONDS_MAX: Final = 60


def archive_found(config: Config) -> str:
    """Whether Spark's JVM starts from an archive."""
    archive = java_start(config).archive
    if archive is None:
        needs = "Java and a folder for caches" if is_local(config.spark.master) else "a local master"
        return f"it starts without an archive of classes, which needs {needs}."
    if class_archive.is_own(archive):
        return f"it starts from the archive of classes {archive}."
    return "it starts without an archive of classes; `ticdc-assets doctor --prepare` makes one."


def prepare(config: Config) -> str:
    """Make the archive for this config, also where there is one. Returns what was done.

    Raises:
        MachineError: there is no Java, no place, or the sample or Java itself failed.
    """
    require_java()
    start = java_start(config)
    if start.archive is None:
        return archive_found(config)
    with tempfile.TemporaryDirectory(prefix="ticdc-assets-") as folder:
        classes = Path(folder) / "classes.list"
        java, class_path = _classes_listed(Path(folder) / "sample", classes)
        path = ":".join((class_path, *map(str, start.jars[:1])))
        class_archive.make(start.archive, classes, java, path)
    return f"the archive of classes {start.archive} is made ({start.archive.stat().st_size >> 20} MiB)."


def _classes_listed(folder: Path, classes: Path) -> tuple[Path, str]:
    """Run the sample in a JVM that lists its classes: the program of that JVM, and its class path without packages."""
    prepare_sample(folder)
    config = load(folder / "changefeeds.yaml", {})
    jars = java_start(config).jars or _downloaded(config)
    chosen = [config.changefeed(CHANGEFEED)]
    with class_archive.classes_listed_in(classes):
        [ran] = run_all(Terminal(), config, chosen, None, {}, folder / "run.log")
    if ran.faults:
        raise MachineError("the sample", "a run without faults", ran.faults[0], "Run `ticdc-assets demo`.")
    java, class_path = jvm_property("java.home"), jvm_property("java.class.path")
    end_jvm(_END_SECONDS_MAX)  # it writes the list when it ends
    return Path(java) / "bin" / "java", class_path.removesuffix(":" + ":".join(map(str, jars)))


def _downloaded(config: Config) -> tuple[Path, ...]:
    """The jars of the sample's packages, which Spark downloads when it starts."""
    spark.session(config)
    spark.stop()
    end_jvm()
    return java_start(config).jars
