"""Reads the block `catalog`. What the libraries of a catalog would misunderstand, or ignore, is refused here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ticdc_assets.config.files import absolute_path
from ticdc_assets.config.model import (
    CATALOG_TYPES,
    NAMING_CATALOG_TYPES,
    PORTABLE_CATALOG_TYPES,
    PORTABLE_SIGNING_NAMES,
    CatalogConfig,
)
from ticdc_assets.config.reading import NAME, Section, shown
from ticdc_assets.config.secrets import Settings

_NO_DATABASE: Final = ("postgres", "http", "https", "thrift", "file", "s3")
"""Schemes that are taken for those of SQLAlchemy. Another database may have a driver that the user has installed."""
_SCHEMES: Final[Mapping[str, tuple[str, ...]]] = {"rest": ("http", "https"), "hive": ("thrift",)}
_STORES: Final = (
    *("file", "hdfs", "viewfs", "s3", "s3a", "s3n", "gs", "oss"),
    *("abfs", "abfss", "wasb", "wasbs"),
)
"""The schemes that pyiceberg opens for writing."""
_RESERVED: Final = re.compile("[?#]|%[0-9A-Fa-f]{2}")
_ONE_SLASH: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?!//)")
_KEYS: Final = ("type", "name", "uri", "warehouse")


def read_catalog(section: Section, base: Path, lake: Path) -> CatalogConfig:
    """The catalog.

    Args:
        base: the folder that relative paths begin at.
        lake: the folder of the default catalog and warehouse.
    """
    kind = section.choice("type", CATALOG_TYPES, "sql")
    name = section.text("name", "lake") or "lake"
    if not NAME.fullmatch(name):
        section.problem("name", "letters, _ and, after the first, digits", shown(name), "Rename the catalog.")
    uri, warehouse = _filled(section, "uri"), _filled(section, "warehouse")
    if uri != "":
        _check_uri(section, kind, uri)
    if kind == "sql":
        database = _database(base, uri) if uri else lake / "lake" / "catalog.db"
        if database is not None:
            _check_folder(section, "uri", str(database))
        uri = _sqlite_below(base, uri) if uri else f"sqlite:///{database}"
        warehouse = warehouse or str(lake / "lake" / "warehouse")
    if warehouse:
        _check_warehouse(section, kind, warehouse)
    properties = section.settings("properties")
    for key in properties:
        if key in _KEYS:
            advice = f"Write it as {key}:, next to properties:."
            section.problem("properties", "settings that have no key of their own", key, advice)
    portable = _portable(section, kind, properties)
    section.close()
    if warehouse and kind not in NAMING_CATALOG_TYPES:
        warehouse = absolute_path(base, warehouse)
        _check_folder(section, "warehouse", warehouse)
    return CatalogConfig(name, kind, uri, warehouse or None, properties, portable)


def _filled(section: Section, key: str) -> str | None:
    found = section.text(key)
    if section.raw(key) == "":
        section.problem(key, "a value", "an empty text", f"Write one, or remove {key}.")
    return found


def _check_uri(section: Section, kind: str, uri: str | None) -> None:
    if uri is None:
        if kind in _SCHEMES and not section.problems.found:
            section.problem("uri", "the catalog's address", "none", f"Add uri: for a {kind} catalog.")
        return
    scheme, found, _ = uri.partition("://")
    if kind == "glue":
        advice = "Remove it; glue.endpoint in properties names another address, and type: rest is Glue's REST endpoint."
        section.problem("uri", "none for a catalog of type glue", "one", advice)
    elif kind == "sql" and (not found or ":" in scheme or scheme in _NO_DATABASE):
        advice = "Write sqlite:////folder/catalog.db, postgresql+psycopg2://... or mysql+pymysql://..., without jdbc:."
        section.problem("uri", "SQLAlchemy's URI of a database", _scheme_of(scheme, found), advice)
    elif kind in _SCHEMES and scheme.lower() not in _SCHEMES[kind]:
        schemes = " or ".join(f"{known}://" for known in _SCHEMES[kind])
        advice = f"Write {schemes} before the host."
        section.problem("uri", f"an address that begins with {schemes}", _scheme_of(scheme, found), advice)


def _scheme_of(scheme: str, found: str) -> str:
    """What a URI begins with. The URI itself may hold a password."""
    return f"{scheme}://" if found and re.fullmatch(r"[A-Za-z0-9+.:-]+", scheme) else "a text without one"


def _check_warehouse(section: Section, kind: str, warehouse: str) -> None:
    if "://" not in warehouse:
        if kind not in NAMING_CATALOG_TYPES and _ONE_SLASH.match(warehouse):
            advice = "Write :// after the scheme, and ./ before a folder of such a name."
            section.problem("warehouse", "a URI or a folder", shown(warehouse), advice)
        return
    fault = _fault_of(warehouse)
    if fault is not None:
        section.problem("warehouse", *fault)


def _check_folder(section: Section, key: str, place: str) -> None:
    """Report a folder of this machine that libraries would read as another one: they take it for a part of a URI."""
    scheme, is_uri, rest = place.partition("://")
    found = _RESERVED.search(rest if is_uri else place)
    if found is not None and (not is_uri or scheme.lower() == "file"):
        advice = f"Move it to a folder without that, or name another place with catalog: {{{key}: ...}}."
        section.problem(key, f"a folder without {found[0]}, which is part of a URI's syntax", repr(place), advice)


def _fault_of(warehouse: str) -> tuple[str, str, str] | None:
    """What no library, or only one of them, would take: expected, found, advice."""
    scheme, _, rest = warehouse.partition("://")
    if scheme.lower() not in _STORES:
        return f"one of the schemes {', '.join(_STORES)}", f"{scheme}://", "Name a store that pyiceberg can write."
    if "?" in rest or "#" in rest:
        advice = "Use a folder without these characters; settings of the store belong into object_store."
        return "a URI without ? and #", "one with them", advice
    host = rest.partition("/")[0]
    if scheme.lower() == "file":
        if host not in ("", "localhost"):
            return "a folder of this machine", f"the host {shown(host)}", "Write three slashes: file:///folder."
    elif not host and scheme.lower() not in ("hdfs", "viewfs"):
        return "the name of a bucket after ://", "none", f"Write {scheme}://bucket/folder."
    if "//" in rest.rstrip("/"):
        return "one slash between two folders", "several", "Remove the others: stores take them as another folder."
    return None


def _portable(section: Section, kind: str, properties: Settings) -> bool:
    """Whether the catalog ignores case in names: as configured, else as known for this catalog type."""
    written = section.raw("portable_names")
    if written is not None and not isinstance(written, bool):
        section.problem("portable_names", "true or false", shown(written), "Write true, or leave it out.")
    if isinstance(written, bool):
        return written
    return kind in PORTABLE_CATALOG_TYPES or properties.get("rest.signing-name") in PORTABLE_SIGNING_NAMES


def _database(base: Path, uri: str) -> Path | None:
    """The file of an SQLite database; None for another one."""
    prefix, found, path = uri.partition(":///")
    return base / path.partition("?")[0] if found and prefix.startswith("sqlite") else None


def _sqlite_below(base: Path, uri: str) -> str:
    prefix, found, path = uri.partition(":///")
    if not found or not prefix.startswith("sqlite") or not path or path == ":memory:":
        return uri
    return f"{prefix}:///{base / path}"
