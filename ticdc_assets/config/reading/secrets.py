"""Values that must never be shown: repr, str and errors show `***` in their place.

A `Secret` holds one value, `Settings` a mapping with some secret values; `redacted` removes credentials from a URI. A
value is only read explicitly: by `reveal()`, or by looking up the setting's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote_plus, urlsplit

MASK: Final = "***"

_HOST: Final = re.compile(r"([\w.$-]*|\[[0-9A-Fa-f:.%]+\])(:[0-9]+)?")

_SECRET_NAME: Final = re.compile(
    r"passw|pwd|secret|token|credential|signature|(^|[-_.])(sig|sas|auth|jaas|cert|key)($|[-_.])"
    r"|(access|account|api|private|encryption)[-_.]?key",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name probably holds a credential; in doubt it does."""
    return _SECRET_NAME.search(name) is not None


class Secret:
    """One hidden value. It can be compared and pickled, but not printed."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, to be passed on and never to be shown."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


class Settings(Mapping[str, str]):
    """An immutable mapping of settings. Secret values can be read by name but are never printed.

    `hidden` names secret values in addition to those recognised by name.
    """

    __slots__ = ("_hidden", "_values")

    def __init__(self, values: Mapping[str, str] | None = None, hidden: frozenset[str] = frozenset()) -> None:
        self._values = dict(values or {})
        self._hidden = hidden | {name for name in self._values if is_secret_name(name)}

    @property
    def hidden(self) -> frozenset[str]:
        """The names whose values are secret."""
        return frozenset(self._hidden & self._values.keys())

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __or__(self, other: Settings) -> Settings:
        return Settings({**self._values, **other._values}, self._hidden | other._hidden)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return repr({name: MASK if name in self._hidden else redacted(value) for name, value in self._values.items()})


def redacted(uri: str) -> str:
    """The URI without user, password, fragment and the values of query parameters with secret names.

    A text that is no URI is returned unchanged. Of a URI that cannot be split safely, only the scheme is kept.
    """
    scheme, found, rest = uri.partition("://")
    if not found:
        return uri
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not _is_clean_authority(authority, rest):
        return f"{scheme}://{MASK}"
    host = f"{MASK}@{authority.rpartition('@')[2]}" if "@" in authority else authority
    path, question, query = rest[len(authority) :].partition("#")[0].partition("?")
    return f"{scheme}://{host}{path}{question}{'&'.join(_redacted_parameter(p) for p in query.split('&'))}"


def _is_clean_authority(authority: str, rest: str) -> bool:
    # A password with an unescaped / ? or # ends the authority early; its rest would then read as a path or a query.
    if not all(_HOST.fullmatch(host) for host in authority.rpartition("@")[2].split(",")):
        return False
    return "@" in authority or ":" not in authority or "@" not in rest.partition("?")[0]


def _redacted_parameter(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    if not equals:
        # A single word may be the end of a password with an unescaped &.
        return MASK if parameter else ""
    decoded = unquote_plus(value)
    if is_secret_name(unquote_plus(name)) or re.search(r"[;&][^=;&]*=", decoded):
        return f"{name}={MASK}"
    return f"{name}={redacted(decoded) if '://' in decoded else value}"


def query_of(uri: str) -> dict[str, str]:
    """The decoded query parameters of a URI; of a repeated one the first, as in TiCDC."""
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(urlsplit(uri).query, keep_blank_values=True):
        parameters.setdefault(name, value)
    return parameters
