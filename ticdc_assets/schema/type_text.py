"""Column types and defaults as MySQL writes them."""

from __future__ import annotations

from ticdc_assets.schema.model import Default, MySqlType


def type_text(of: MySqlType) -> str:
    """The type, such as DECIMAL(10,2) UNSIGNED or ENUM('a','b'); `parse_type` reads it back to an equal type."""
    if of.elements is not None:
        inside = ",".join(_quoted(label) for label in of.elements)
    else:
        inside = ",".join(str(number) for number in (of.length, of.scale) if number is not None)
    written = f"{of.kind}({inside})" if inside else str(of.kind)
    unsigned = " UNSIGNED" if of.unsigned else ""
    charset = f" CHARACTER SET {of.charset}" if of.charset else ""
    return f"{written}{unsigned}{charset}"


def default_text(default: Default | None) -> str | None:
    """The default as SQL; None without one."""
    if default is None:
        return None
    if default.expression is not None:
        return default.expression
    if default.value is None:
        return "NULL"
    return f"X'{default.value.hex()}'" if isinstance(default.value, bytes) else _quoted(default.value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
