"""The file system of pyarrow or fsspec that a URI means. TiCDC writes credentials and endpoints into its query."""

from __future__ import annotations

import importlib
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote

import pyarrow.fs as pafs

from ticdc_assets.errors import SourceError

_SCHEME_NAMES: Final = {"gcs": "gs", "azure": "abfs", "azblob": "abfs"}


def shown_uri(parts: SplitResult) -> str:
    """A URI without user, password and query."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def filesystem_of(uri: str, parts: SplitResult) -> tuple[Any, str]:
    """The file system and the root's path in it. TiCDC's sink URIs have credentials and endpoints in their query."""
    scheme = parts.scheme.lower()
    scheme = _SCHEME_NAMES.get(scheme, scheme)
    options = dict(parse_qsl(parts.query))
    path = f"{parts.netloc.rpartition('@')[2]}{unquote(parts.path)}".strip("/")
    s3 = _s3_options(options, parts) if scheme == "s3" else {}
    if s3:
        return pafs.S3FileSystem(**s3), path
    if scheme in ("abfs", "abfss") and "account-name" in options:
        container, at, _ = parts.netloc.rpartition("@")
        inside = f"{container}{unquote(parts.path)}".strip("/") if at else path
        return pafs.AzureFileSystem(**_azure_options(options)), inside
    if scheme == "gs" and "endpoint" in options:
        protocol, _, host = options["endpoint"].rpartition("://")
        return pafs.GcsFileSystem(endpoint_override=host.rstrip("/"), scheme=protocol or "https"), path
    plain = f"{scheme}://{parts.netloc}{parts.path}"
    try:
        filesystem, base = pafs.FileSystem.from_uri(plain)
    except ValueError:  # pyarrow's ArrowInvalid: an unknown scheme
        return _fsspec(plain, shown_uri(parts))
    return filesystem, base.strip("/")


def _s3_options(options: dict[str, str], parts: SplitResult) -> dict[str, Any]:
    """The options in the URI, under TiCDC's names or pyarrow's; empty if the environment decides."""
    endpoint = options.get("endpoint") or options.get("endpoint_override") or ""
    scheme, _, host = endpoint.rpartition("://")
    chosen = {
        "access_key": options.get("access-key") or (parts.username and unquote(parts.username)),
        "secret_key": options.get("secret-access-key") or (parts.password and unquote(parts.password)),
        "session_token": options.get("session-token"),
        "region": options.get("region"),
        "endpoint_override": host.rstrip("/"),
        "scheme": scheme or options.get("scheme"),
        "force_virtual_addressing": options.get("force-path-style") == "false",
    }
    return {name: value for name, value in chosen.items() if value}


def _azure_options(options: dict[str, str]) -> dict[str, str]:
    names = {"account-name": "account_name", "account-key": "account_key", "sas-token": "sas_token"}
    return {option: options[name] for name, option in names.items() if name in options}


def _fsspec(uri: str, shown: str) -> tuple[Any, str]:
    try:
        filesystem, base = importlib.import_module("fsspec.core").url_to_fs(uri)
    except ValueError:
        advice = "Use a folder, file://, s3://, gs:// or abfs://, or install the fsspec package for this scheme."
        raise SourceError(shown, "a scheme that pyarrow or fsspec knows", "another", advice) from None
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem)), str(base).strip("/")
