"""The format of a lake: every control table names it, and a release that does not know it changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

import ticdc_assets
from ticdc_assets.config.model.config import CatalogConfig
from ticdc_assets.errors import ConfigError
from ticdc_assets.tables import lake_format, messages
from ticdc_assets.tables.catalog import open_catalog
from ticdc_assets.tables.control.tables import Control
from ticdc_assets.tables.lake_format import FORMAT, FORMAT_PROPERTY, MARK, RELEASE_PROPERTY
from ticdc_assets_tests.frozen_lake import LAKES, description

NAMESPACE = ("ticdc_feed",)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"{tmp_path}/warehouse"
    return open_catalog(CatalogConfig(name="lake", type="sql", uri=uri, warehouse=warehouse))


@pytest.fixture
def control(catalog: Catalog) -> Control:
    made = Control(catalog, NAMESPACE)
    made.keep_registered("http://registry", {1: '"int"'})
    return made


def registry_properties(catalog: Catalog) -> dict[str, str]:
    return catalog.load_table((*NAMESPACE, "registry")).properties


def test_a_new_control_table_names_its_format_and_release(catalog: Catalog, control: Control):
    assert MARK.items() <= registry_properties(catalog).items()
    assert MARK.items() <= messages.ensure(catalog, NAMESPACE).properties.items()


def test_a_newer_format_is_refused_with_the_release_to_install(
    catalog: Catalog, control: Control, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lake_format, "FORMAT", 0)  # as the release before this one
    before = catalog.load_table((*NAMESPACE, "registry")).metadata_location

    release = re.escape(f"found format 1 of ticdc-assets {ticdc_assets.__version__}. Run: pip install 'ticdc-assets>=")
    with pytest.raises(ConfigError, match=release):
        control.registered("http://registry")
    with pytest.raises(ConfigError, match=release):
        control.keep_registered("http://registry", {2: '"long"'})

    assert catalog.load_table((*NAMESPACE, "registry")).metadata_location == before


def test_a_lake_of_a_lower_format_is_marked_by_the_first_write_and_only_once(
    catalog: Catalog, control: Control, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lake_format, "FORMAT", 2)
    monkeypatch.setattr(lake_format, "MARK", {FORMAT_PROPERTY: "2", RELEASE_PROPERTY: "9.0.0"})

    control.keep_registered("http://registry", {1: '"int"'})  # which it has
    location = catalog.load_table((*NAMESPACE, "registry")).metadata_location
    control.keep_registered("http://registry", {1: '"int"'})

    assert registry_properties(catalog)[RELEASE_PROPERTY] == "9.0.0"
    assert catalog.load_table((*NAMESPACE, "registry")).metadata_location == location


def test_a_change_of_columns_or_properties_is_a_new_format():
    """Else a release before the change would continue a lake that it does not understand. After the first release:
    raise `FORMAT`, then run `python -m ticdc_assets_tests.frozen_lake`. Until then format 1 may change."""
    assert description() == (LAKES / f"format_{FORMAT}.txt").read_text()
