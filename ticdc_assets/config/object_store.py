"""The object store of the lake: configured once, and passed to each library under that library's own setting names.

TiCDC's storage URIs, pyiceberg and Iceberg's Java library have different names for the same setting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from ticdc_assets.config.reading import Section, shown
from ticdc_assets.config.secrets import Settings
from ticdc_assets.config.sink import Storage

PYARROW_ADVICE: Final = "Install the pyarrow of PyPI, which has all stores: pip install --force-reinstall pyarrow."


class StoreType(StrEnum):
    """The object stores that can hold a lake."""

    S3 = "s3"
    GCS = "gcs"
    AZURE = "azure"


_TYPES_BY_SCHEME: Final = {
    "s3": StoreType.S3,
    "s3a": StoreType.S3,
    "s3n": StoreType.S3,
    "gs": StoreType.GCS,
    "gcs": StoreType.GCS,
    "abfs": StoreType.AZURE,
    "abfss": StoreType.AZURE,
    "azure": StoreType.AZURE,
    "azblob": StoreType.AZURE,
    "wasb": StoreType.AZURE,
    "wasbs": StoreType.AZURE,
}


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of one setting in TiCDC's storage URIs, pyiceberg and Iceberg's Java library (None if it has none)."""

    sink: str
    pyiceberg: str
    java: str | None


_NAMES: Final[dict[StoreType, dict[str, _Names]]] = {
    StoreType.S3: {
        "endpoint": _Names("endpoint", "s3.endpoint", "s3.endpoint"),
        "region": _Names("region", "s3.region", "client.region"),
        "path_style": _Names("force-path-style", "s3.force-virtual-addressing", "s3.path-style-access"),
        "access_key": _Names("access-key", "s3.access-key-id", "s3.access-key-id"),
        "secret_key": _Names("secret-access-key", "s3.secret-access-key", "s3.secret-access-key"),
        "session_token": _Names("session-token", "s3.session-token", "s3.session-token"),
    },
    StoreType.GCS: {
        "endpoint": _Names("endpoint", "gcs.service.host", "gcs.service.host"),
    },
    StoreType.AZURE: {
        "account": _Names("account-name", "adls.account-name", None),
        "account_key": _Names("account-key", "adls.account-key", "adls.auth.shared-key.account.key"),
        "sas_token": _Names("sas-token", "adls.sas-token", None),
    },
}
_JAVA_IO: Final = {
    StoreType.S3: "org.apache.iceberg.aws.s3.S3FileIO",
    StoreType.GCS: "org.apache.iceberg.gcp.gcs.GCSFileIO",
    StoreType.AZURE: "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
}
CREDENTIALS: Final = frozenset(
    {
        *("access-key", "secret-access-key", "session-token", "profile", "role-arn", "external-id"),
        *("credentials-file", "account-key", "sas-token"),
    }
)
"""TiCDC's names of the options with credentials."""


def store_type_of(uri: str | None) -> StoreType | None:
    """The object store of a URI; None for other file systems and without a URI."""
    scheme, found, _ = (uri or "").partition("://")
    return _TYPES_BY_SCHEME.get(scheme.lower()) if found else None


def java_io_of(store: StoreType) -> str:
    """The FileIO class of Iceberg's Java library for the store."""
    return _JAVA_IO[store]


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """The configured object store. `settings` have the keys of the config; without credentials, each library uses those
    of its environment."""

    type: StoreType
    settings: Settings = field(default_factory=Settings)

    @property
    def sink_options(self) -> Settings:
        """The settings under the names of TiCDC's storage URIs."""
        return self._named({name: names.sink for name, names in _NAMES[self.type].items()})

    @property
    def pyiceberg_properties(self) -> Settings:
        """The settings under pyiceberg's names."""
        found = self._named({name: names.pyiceberg for name, names in _NAMES[self.type].items()})
        style = found.get("s3.force-virtual-addressing")
        return found if style is None else found | Settings({"s3.force-virtual-addressing": _opposite(style)})

    @property
    def java_properties(self) -> Settings:
        """The settings under the names of Iceberg's Java library."""
        names = {name: names.java for name, names in _NAMES[self.type].items() if names.java is not None}
        account = self.settings.get("account")
        if account and "account_key" in self.settings:
            names["account"] = "adls.auth.shared-key.account.name"
        if account and "sas_token" in self.settings:
            names["sas_token"] = f"adls.sas-token.{account}.dfs.core.windows.net"
        return self._named(names)

    def _named(self, names: dict[str, str]) -> Settings:
        values = {names[name]: value for name, value in self.settings.items() if name in names}
        return Settings(values, frozenset(names[name] for name in self.settings.hidden if name in names))

    def opens(self, storage: Storage) -> Storage:
        """The storage, with settings of this store that it lacks.

        A storage with another endpoint or account is another store and gets no settings. A storage with credentials of
        its own gets no credentials.
        """
        if store_type_of(storage.location) is not self.type or self._is_another(storage.options):
            return storage
        defaults = self.sink_options
        if not CREDENTIALS.isdisjoint(storage.options):
            defaults = Settings({name: value for name, value in defaults.items() if name not in CREDENTIALS})
        return Storage(storage.location, defaults | storage.options)

    def _is_another(self, options: Settings) -> bool:
        of_sink = self.sink_options
        return any(
            name in options and options[name].rstrip("/") != of_sink.get(name, "").rstrip("/")
            for name in ("endpoint", "account-name")
        )


def _opposite(text: str) -> str:
    return "false" if text == "true" else "true"


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_object_store(root: Section, warehouse: str | None) -> ObjectStore | None:
    """The block `object_store`; None without one. Its type defaults to that of the warehouse."""
    if "object_store" not in root:
        root.raw("object_store")
        return None
    section = root.section("object_store")
    of_warehouse = store_type_of(warehouse)
    kind = StoreType(section.choice("type", tuple(StoreType), of_warehouse or StoreType.S3))
    if of_warehouse not in (None, kind):
        advice = "Remove type:, or name another warehouse. Settings of a source alone are in its own options."
        section.problem("type", f"{of_warehouse}, as in the URI of the warehouse", str(kind), advice)
        return None
    hidden = frozenset(name for name in _NAMES[kind] if isinstance(section.raw(name), dict))
    found = {name: _value(section, name) for name in _NAMES[kind]}
    settings = {name: value for name, value in found.items() if value is not None}
    if kind is StoreType.S3 and "endpoint" in settings:
        settings.setdefault("path_style", "true")
    _check(section, kind, settings)
    section.close()
    return ObjectStore(kind, Settings(settings, hidden))


def _value(section: Section, name: str) -> str | None:
    if name != "path_style":
        return section.text(name)
    written = section.raw(name)
    if written is not None and not isinstance(written, bool):
        section.problem(name, "true or false", shown(written), "Write path_style: true, or leave it out.")
        return None
    return None if written is None else str(written).lower()


def _check(section: Section, kind: StoreType, settings: dict[str, str]) -> None:
    endpoint = settings.get("endpoint")
    if endpoint is not None and not _is_address(endpoint):
        advice = "Write http://host:port or https://host, without a bucket; credentials have keys of their own."
        section.problem("endpoint", "the address of the store", shown(endpoint), advice)
    if ("access_key" in section) != ("secret_key" in section):
        missing = "secret_key" if "access_key" in section else "access_key"
        advice = f"Add {missing}, or leave both out: then the environment's own are taken."
        section.problem(missing, "access_key and secret_key together", "one of them", advice)
    elif "session_token" in section and "access_key" not in section:
        section.problem("session_token", "the access_key that it belongs to", "none", "Add access_key and secret_key.")
    if kind is not StoreType.AZURE:
        return
    if "account" not in section:
        section.problem("account", "the name of the storage account", "none", "Add account:.")
    if "account_key" in section and "sas_token" in section:
        section.problem("sas_token", "account_key or sas_token", "both", "Remove one of the two.")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        extra = "@" in parts.netloc or parts.query or parts.fragment or parts.port == 0 or " " in text
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and not extra
    except ValueError:  # of a port
        return False
