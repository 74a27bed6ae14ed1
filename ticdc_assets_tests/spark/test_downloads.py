"""The packages that Spark downloads: one process downloads them, in a folder that it can write."""

from __future__ import annotations

import os
import pwd
import threading
import time
from pathlib import Path

import pytest

from ticdc_assets import spark
from ticdc_assets.config import load
from ticdc_assets.errors import MachineError
from ticdc_assets.spark import packages
from ticdc_assets.spark.packages import ICEBERG_PACKAGE, ivy_folder, packages_fetched_once
from ticdc_assets_tests.apart import apart

PACKAGES = "org.a:b_2.13:1.0,org.c:d:2"


def test_packages_are_fetched_by_one_and_used_by_all(tmp_path: Path):
    jars, inside, together = tmp_path / "jars", [], threading.Barrier(2, timeout=20)
    jars.mkdir()

    def fetch(number: int) -> None:
        with packages_fetched_once(PACKAGES, str(tmp_path)):
            inside.append(number)
            time.sleep(0.2)
            assert inside[-1] == number, "another one fetches at the same time"
            for name in ("org.a_b_2.13-1.0.jar", "org.c_d-2.jar"):
                (jars / name).touch()

    def use() -> None:
        with packages_fetched_once(PACKAGES, str(tmp_path)):
            together.wait()

    for wanted in ([lambda: fetch(1), lambda: fetch(2)], [use, use]):
        faults: list[BaseException] = []
        threads = [threading.Thread(target=_keep_fault, args=(work, faults)) for work in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []


def _keep_fault(work: object, faults: list[BaseException]) -> None:
    assert callable(work)
    try:
        work()
    except BaseException as error:  # noqa: BLE001  of another thread
        faults.append(error)


def test_packages_go_elsewhere_where_the_users_home_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    home = pwd.struct_passwd(("x", "x", 1, 1, "", str(tmp_path / "none"), ""))
    monkeypatch.setattr(packages.pwd, "getpwuid", lambda _: home)
    assert Path(ivy_folder() or "").name == f"ticdc-assets-ivy-{os.getuid()}"
    (tmp_path / "none").mkdir()
    assert ivy_folder() is None


NO_REPOSITORY = """<ivysettings><settings defaultResolver="none"/><resolvers>
<filesystem name="none"><artifact pattern="{folder}/[artifact].[ext]"/></filesystem></resolvers></ivysettings>"""


@pytest.mark.spark
def test_packages_that_cannot_be_downloaded_are_named_with_what_to_do(tmp_path: Path):
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(NO_REPOSITORY.format(folder=tmp_path / "empty"))
    config = tmp_path / "changefeeds.yaml"
    conf = f"{{spark.jars.ivy: {tmp_path}/ivy, spark.jars.ivySettings: {settings}}}"
    config.write_text(f'changefeeds: {{a: {{sink_uri: "s3://b/x?protocol=csv"}}}}\nspark: {{conf: {conf}}}\n')

    text = apart(_fault_of_a_start, config)

    assert text.startswith(f"the first start of Spark, {tmp_path}/ivy/jars: expected {ICEBERG_PACKAGE}, org.xerial:")
    assert "found no such jar. Let this machine reach Maven Central; or name your own repository" in text


def _fault_of_a_start(config: Path) -> str:
    with pytest.raises(MachineError) as caught:
        spark.session(load(config, {}))
    return str(caught.value)
