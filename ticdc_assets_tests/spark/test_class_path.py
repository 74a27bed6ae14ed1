"""Jars on Java's class path: only where one JVM does all the work, and the packages need nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.spark.packages import may_be_on_class_path, packages_fetched_once, with_class_path
from ticdc_assets.spark.settings import session_conf
from ticdc_assets.spark.start import java_start
from ticdc_assets_tests.config.config_file import loaded, with_feed

ALONE = {"org.a:b"}


@pytest.mark.parametrize(
    ("conf", "packages", "possible"),
    [
        ({"spark.master": "local[*]"}, ["org.a:b:1"], True),
        ({"spark.master": "local"}, ["org.a:b:1"], True),
        ({"spark.master": "local-cluster[2,1,512]"}, ["org.a:b:1"], False),
        ({"spark.master": "spark://host:7077"}, ["org.a:b:1"], False),
        ({"spark.master": "local[2]"}, ["org.a:b:1", "org.postgresql:postgresql:42.7.4"], False),
        ({"spark.master": "local[2]", "spark.jars": "/own.jar"}, ["org.a:b:1"], False),
    ],
)
def test_packages_are_on_the_class_path_of_a_jvm_that_does_all_the_work(
    conf: dict[str, str], packages: list[str], possible: bool
):
    assert may_be_on_class_path(conf, packages, ALONE, {}) is possible


def test_a_script_that_may_set_the_class_path_leaves_the_packages_to_spark(tmp_path: Path):
    conf, environ = {"spark.master": "local"}, {"SPARK_CONF_DIR": str(tmp_path)}
    assert may_be_on_class_path(conf, ["org.a:b:1"], ALONE, environ)

    (tmp_path / "spark-env.sh").write_text("SPARK_DIST_CLASSPATH=$(hadoop classpath)\n")

    assert not may_be_on_class_path(conf, ["org.a:b:1"], ALONE, environ)


def test_jars_follow_what_the_user_put_on_the_class_path():
    environ = {"SPARK_DIST_CLASSPATH": "/hadoop/*", "A": "b"}

    assert with_class_path(environ, [Path("/a.jar")]) == {"SPARK_DIST_CLASSPATH": "/hadoop/*:/a.jar", "A": "b"}
    assert with_class_path({}, [Path("/a.jar"), Path("/b.jar")]) == {"SPARK_DIST_CLASSPATH": "/a.jar:/b.jar"}


def test_the_first_start_lets_spark_download_and_later_ones_take_the_jars(tmp_path: Path):
    config = loaded(tmp_path, {"spark": {"conf": {"spark.jars.ivy": str(tmp_path / "ivy")}}, **with_feed()})
    packages = session_conf(config)["spark.jars.packages"]
    before = java_start(config).jars
    for package in packages.split(","):
        (tmp_path / "ivy" / "jars").mkdir(exist_ok=True)
        (tmp_path / "ivy" / "jars" / f"{'_'.join(package.split(':')[:2])}-{package.split(':')[2]}.jar").touch()

    with packages_fetched_once(packages, str(tmp_path / "ivy")) as found:
        assert before == ()
        assert len(found) == 2
        assert java_start(config).jars == found
    assert java_start(config).conf({})["spark.jars.packages"] == ""
