"""Hadoop's file system of local files, without the processes that it starts.

For each file that it creates, Hadoop starts the command `chmod`, and it does the same for a file of checksums. For the
six files of a small commit this takes longer than all other work. The file system here starts no process and writes no
checksums: files have the permissions of the process's umask, as those that Python writes.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE: Final = "LocalFiles.java"
_CLASS: Final = "ticdc_assets.LocalFiles"
_SETTING: Final = "fs.file.impl"
_ROOT: Final = "file:///"


def write_files_without_processes(spark: SparkSession) -> None:
    """Replace the file system of local files in the JVM of `spark` alone, unless the settings name one.

    Janino, with which Spark compiles queries, compiles the class. Where that fails, Hadoop's file system stays.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    shared = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    if shared.get(_SETTING) is not None:
        return
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(files(__package__).joinpath(_SOURCE).read_text())
        # Only this copy names the class: other JVMs do not have it.
        own = jvm.org.apache.hadoop.conf.Configuration(shared)
        own.setClassLoader(compiler.getClassLoader())
        own.set(_SETTING, _CLASS)
        root = jvm.java.net.URI.create(_ROOT)
        systems = jvm.org.apache.hadoop.fs.FileSystem
        systems.get(root, shared).close()  # removes it from Hadoop's cache
        systems.get(root, own)
    except (Py4JJavaError, TypeError):  # py4j raises TypeError where Java lacks a class
        return
