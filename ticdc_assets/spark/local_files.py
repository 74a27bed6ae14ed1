"""Files that Java writes on this machine, without a process for each.

Hadoop starts the command `chmod` for each file that it creates, and writes a file of checksums beside, with another
`chmod`. That takes more time than all the rest of a small commit, which writes six files. Here files have the
permissions that the umask of the process gives them, as those that Python writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE: Final = Path(__file__).with_name("LocalFiles.java")
_CLASS: Final = "ticdc_assets.LocalFiles"
_SETTING: Final = "fs.file.impl"
_ROOT: Final = "file:///"


def write_files_without_processes(spark: SparkSession) -> None:
    """Replace Hadoop's file system of local files in the JVM of `spark`. The class is compiled by Janino, with which
    Spark compiles its queries. Where that fails, or the settings name a file system, that one stays.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    shared = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    if shared.get(_SETTING) is not None:
        return
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(_SOURCE.read_text())
        # Only this copy names the class: other JVMs do not have it.
        own = jvm.org.apache.hadoop.conf.Configuration(shared)
        own.setClassLoader(compiler.getClassLoader())
        own.set(_SETTING, _CLASS)
        root = jvm.java.net.URI.create(_ROOT)
        systems = jvm.org.apache.hadoop.fs.FileSystem
        systems.get(root, shared).close()  # which makes place for another one in Hadoop's cache
        systems.get(root, own)
    except (Py4JJavaError, TypeError):  # py4j raises TypeError where Java lacks a class
        return
