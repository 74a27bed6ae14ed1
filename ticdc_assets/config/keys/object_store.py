"""The block `object_store`: its keys, of which each type of store has some."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, Strict

from ticdc_assets.config.model.object_store import ObjectStore, StoreType, keys_of, store_type_of
from ticdc_assets.config.reading.secrets import Settings
from ticdc_assets.config.reading.sections import Section, shown
from ticdc_assets.config.reading.validation import Keys, refused
from ticdc_assets.config.reading.values import Text


def _endpoint(text: str) -> str:
    if not _is_address(text):
        advice = "Write http://host:port or https://host, without a bucket; credentials have keys of their own."
        raise refused("the address of the store", shown(text), advice)
    return text


class ObjectStoreKeys(Keys):
    """The object store of the warehouse, and of every source bucket and claim check in the same store."""

    type: Annotated[StoreType | None, Strict(False)] = Field(
        default=None, description="the kind of store; default: that of the warehouse's URI, else `s3`"
    )
    endpoint: Annotated[Text, AfterValidator(_endpoint)] | None = Field(
        default=None,
        description="`http://host:port` or `https://host`; for `s3` and `gcs`. Default: the provider's own",
        examples=["http://minio:9000"],
    )
    region: Text | None = Field(
        default=None, description="for `s3`; default: that of the environment", examples=["eu-west-1"]
    )
    path_style: bool | None = Field(
        default=None, description="`false` where buckets are host names; for `s3`. Default: `true` with an `endpoint`"
    )
    access_key: Text | None = Field(default=None, description="for `s3`, with `secret_key`; default: the environment's")
    secret_key: Text | None = Field(default=None, description="the secret that belongs to `access_key`")
    session_token: Text | None = Field(default=None, description="the token that belongs to a temporary `access_key`")
    account: Text | None = Field(default=None, description="the storage account; for `azure`, which requires it")
    account_key: Text | None = Field(default=None, description="for `azure`; default: the environment's credentials")
    sas_token: Text | None = Field(default=None, description="for `azure`, in place of `account_key`")


def object_store_of(keys: ObjectStoreKeys, section: Section, warehouse: str | None) -> ObjectStore | None:
    """The store; None if it is not that of the warehouse. `section` has its keys."""
    of_warehouse = store_type_of(warehouse)
    kind = keys.type or of_warehouse or StoreType.S3
    if of_warehouse not in (None, kind):
        advice = "Remove type:, or name another warehouse. Settings of a source alone are in its own options."
        section.problem("type", f"{of_warehouse}, as in the URI of the warehouse", str(kind), advice)
        return None
    written = {name: value for name, value in keys if name != "type" and value is not None}
    known = keys_of(kind)
    for name in sorted(written.keys() - known):
        advice = f"Remove it, or name another type. Its keys: {', '.join(sorted(known))}."
        section.problem(name, f"a key of the type {kind}", "one of another type", advice)
    if kind is StoreType.S3 and keys.endpoint is not None:
        written.setdefault("path_style", True)
    found = {name: str(value).lower() if name == "path_style" else value for name, value in written.items()}
    _check_credentials(section, kind)
    hidden = frozenset(name for name in found if isinstance(section.values.get(name), dict))
    return ObjectStore(kind, Settings(found, hidden))


def _check_credentials(section: Section, kind: StoreType) -> None:
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
