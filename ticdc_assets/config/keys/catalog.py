"""The block `catalog`. What the libraries of a catalog would misunderstand, or ignore, is refused here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from ticdc_assets.config.model.config import (
    NAMING_CATALOG_TYPES,
    PORTABLE_CATALOG_TYPES,
    PORTABLE_SIGNING_NAMES,
    CatalogConfig,
)
from ticdc_assets.config.reading.files import absolute_path
from ticdc_assets.config.reading.secrets import Settings
from ticdc_assets.config.reading.sections import NAME, Section, shown
from ticdc_assets.config.reading.validation import Keys, Refusal, refuse_any, refused
from ticdc_assets.config.reading.values import FilledText, FreeSettings, Text

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


def _name(text: str) -> str:
    if not NAME.fullmatch(text or "lake"):
        raise refused("letters, _ and, after the first, digits", shown(text), "Rename the catalog.")
    return text or "lake"


def _properties(found: Settings) -> Settings:
    expected, own = "settings that have no key of their own", [key for key in found if key in _KEYS]
    refuse_any(*(Refusal(expected, key, f"Write it as {key}:, next to properties:.") for key in own))
    return found


class CatalogKeys(Keys):
    """The Iceberg catalog."""

    type: Literal["sql", "rest", "glue", "hive"] = Field(default="sql", description="the kind of catalog")
    name: Annotated[Text, AfterValidator(_name)] = Field(
        default="lake", description="the name of the catalog in Spark SQL"
    )
    uri: FilledText | None = Field(
        default=None,
        description="of the catalog; not for `glue`. Another database than SQLite takes its SQLAlchemy URI. Default, "
        "for `sql`: SQLite at `./lake/catalog.db`",
        examples=["postgresql+psycopg2://user@host/catalog"],
    )
    warehouse: FilledText | None = Field(
        default=None,
        description="a URI, without `?`, `#` and empty parts; a folder (`sql`, `hive`) without `?`, `#` and what reads "
        "as an escape, such as `%41`; or its name or ARN in the catalog (`rest`, `glue`). Default, for `sql`: "
        "`./lake/warehouse`",
        examples=["s3://lake/warehouse"],
    )
    portable_names: bool | None = Field(
        default=None,
        description="whether all names consist of lower case letters, digits and `_`, for catalogs that fold case. "
        "Default: `true` for `glue`, `hive` and the REST endpoints of Glue and S3 Tables",
    )
    properties: Annotated[FreeSettings, AfterValidator(_properties)] = Field(
        default=Settings(),
        description="settings without a key of their own, passed unchanged to pyiceberg, and to Spark below "
        "`spark.sql.catalog.<name>.`",
    )


def catalog_of(keys: CatalogKeys, section: Section, base: Path, lake: Path) -> CatalogConfig:
    """The catalog; `section` has its keys.

    Args:
        base: the folder that relative paths begin at.
        lake: the folder of the default catalog and warehouse.
    """
    kind, uri, warehouse = keys.type, keys.uri, keys.warehouse
    if uri is not None or "uri" not in section:
        _check_uri(section, kind, uri)
    if kind == "sql":
        database = _database(base, uri) if uri else lake / "lake" / "catalog.db"
        if database is not None:
            _check_folder(section, "uri", str(database))
        uri = _sqlite_below(base, uri) if uri else f"sqlite:///{database}"
        warehouse = warehouse or str(lake / "lake" / "warehouse")
    if warehouse:
        _check_warehouse(section, kind, warehouse)
    if warehouse and kind not in NAMING_CATALOG_TYPES:
        warehouse = absolute_path(base, warehouse)
        _check_folder(section, "warehouse", warehouse)
    return CatalogConfig(keys.name, kind, uri, warehouse, keys.properties, _portable(keys))


def _check_uri(section: Section, kind: str, uri: str | None) -> None:
    if uri is None:
        if kind in _SCHEMES:
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


def _portable(keys: CatalogKeys) -> bool:
    """Whether the catalog ignores case in names: as configured, else as known for this catalog type."""
    if keys.portable_names is not None:
        return keys.portable_names
    return keys.type in PORTABLE_CATALOG_TYPES or keys.properties.get("rest.signing-name") in PORTABLE_SIGNING_NAMES


def _database(base: Path, uri: str) -> Path | None:
    """The file of an SQLite database; None for another one."""
    prefix, found, path = uri.partition(":///")
    return base / path.partition("?")[0] if found and prefix.startswith("sqlite") else None


def _sqlite_below(base: Path, uri: str) -> str:
    prefix, found, path = uri.partition(":///")
    if not found or not prefix.startswith("sqlite") or not path or path == ":memory:":
        return uri
    return f"{prefix}:///{base / path}"
