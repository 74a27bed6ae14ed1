"""The object store of the lake: configured once, and passed to each library under that library's own setting names.

TiCDC's storage URIs, pyiceberg and Iceberg's Java library have different names for the same setting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ticdc_assets.config.model.sink import Storage
from ticdc_assets.config.reading.secrets import Settings

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


def keys_of(store: StoreType) -> frozenset[str]:
    """The keys of the config that a store of the type has."""
    return frozenset(_NAMES[store])


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
