"""The upstream TiDB of a changefeed, as configured: its address and user."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema

from ticdc_assets.config.model.source import Upstream, UpstreamTls
from ticdc_assets.config.reading.sections import Section
from ticdc_assets.config.reading.validation import Context, Keys, refused
from ticdc_assets.config.reading.values import SETTING, FilePath, SecretText, Text, also, text_of

_PORTS: Final = range(1, 1 << 16)


def _port(value: Any, info: ValidationInfo[Context]) -> int:
    text = text_of(value, info.context, "port", numbers=True)
    if not (text.isascii() and text.isdigit()) or int(text[:6]) not in _PORTS:
        found = "another number" if text.isdigit() else "no number"
        raise refused("a port between 1 and 65535", found, "Write the port of TiDB; its default is 4000.")
    return int(text)


def _tls(value: Any) -> Any:
    """The keys; `true` is all of their defaults, and `false` is none."""
    return {} if value is True else None if value is False else value


class TlsKeys(Keys):
    """TLS of the connection: encrypted, and the server is verified. `true` has all defaults."""

    ca: FilePath = Field(
        default=None, description="the PEM file that verifies the server; default: the system's authorities"
    )
    cert: FilePath = Field(default=None, description="the PEM file of the client's certificate")
    key: FilePath = Field(default=None, description="the PEM file of its key")


class UpstreamKeys(Keys):
    """The TiDB of the changefeed. Without `tls` the connection is encrypted only if the server offers it."""

    host: Text = Field(description="the name or address of a TiDB server", min_length=1)
    user: Text = Field(description="the user who reads there, with SELECT on the tables", min_length=1)
    port: Annotated[int, PlainValidator(_port), WithJsonSchema(SETTING)] = Field(default=4000, description="its port")
    password: SecretText = Field(default=None, description="the password of the user")
    tls: Annotated[TlsKeys | None, BeforeValidator(_tls)] = Field(
        default=None, description="`true`, or `{ca, cert, key}`: PEM files", json_schema_extra=also({"type": "boolean"})
    )


def upstream_of(keys: UpstreamKeys, section: Section) -> Upstream:
    """The upstream; `section` has its keys."""
    tls = keys.tls
    if tls is not None and (tls.cert is None) != (tls.key is None):
        section.below("tls").problem("cert", "cert and key, or neither", "one of them", "Name both files.")
    tls_of = None if tls is None else UpstreamTls(tls.ca, tls.cert, tls.key)
    return Upstream(keys.host, keys.user, keys.port, keys.password, tls_of)
