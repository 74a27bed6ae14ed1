"""The upstream TiDB of a changefeed, as configured: its address and user."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ticdc_assets.config.files import absolute_path
from ticdc_assets.config.reading import Section
from ticdc_assets.config.secrets import Secret
from ticdc_assets.config.source_model import Upstream, UpstreamTls

_PORTS: Final = range(1, 1 << 16)
_WRONG: Final = Upstream("", "")
"""Placeholder for an invalid upstream."""


def read_upstream(section: Section, base: Path) -> Upstream | None:
    """The upstream; None if none is configured."""
    if section.raw("upstream") is None:
        return None
    upstream = section.section("upstream")
    before = len(section.problems.found)
    host, user = upstream.text("host"), upstream.text("user")
    port, password, tls = _port(upstream), upstream.text("password"), _tls(upstream, base)
    upstream.close()
    if len(section.problems.found) > before:
        return _WRONG
    if not host:
        upstream.problem("host", "the name or address of a TiDB server", "none", "Write upstream: {host: ..., ...}.")
    if not user:
        upstream.problem("user", "the user who reads there", "none", "Name a user that may SELECT from the tables.")
    return Upstream(host or "", user or "", port, Secret(password) if password else None, tls)


def _port(upstream: Section) -> int:
    written = upstream.raw("port")
    text = None if written is None else upstream.resolve("port", written, numbers=True)
    if text is None:
        return _WRONG.port
    if not (text.isascii() and text.isdigit()) or int(text[:6]) not in _PORTS:
        found = "another number" if text.isdigit() else "no number"
        upstream.problem("port", "a port between 1 and 65535", found, "Write the port of TiDB; its default is 4000.")
        return _WRONG.port
    return int(text)


def _tls(upstream: Section, base: Path) -> UpstreamTls | None:
    written = upstream.raw("tls")
    if written is None or isinstance(written, bool):
        return UpstreamTls() if written else None
    tls = upstream.section("tls")
    ca, cert, key = (_file(tls, name, base) for name in ("ca", "cert", "key"))
    tls.close()
    if (cert is None) != (key is None):
        tls.problem("cert", "cert and key, or neither", "one of them", "Name both files.")
    return UpstreamTls(ca, cert, key)


def _file(tls: Section, name: str, base: Path) -> Path | None:
    written = tls.text(name)
    return Path(absolute_path(base, written)) if written else None
