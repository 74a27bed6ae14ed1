"""Names in SQL statements."""

from __future__ import annotations


def quote(name: str) -> str:
    """Quote an identifier for Spark SQL."""
    return f"`{name.replace('`', '``')}`"


def quote_path(parts: tuple[str, ...]) -> str:
    """Quote a path of identifiers for Spark SQL, such as catalog, namespace and table."""
    return ".".join(quote(part) for part in parts)
