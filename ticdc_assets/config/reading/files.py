"""Files of a config: relative paths start at the config's folder; an unreadable file is a ConfigError."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ticdc_assets.errors import ConfigError

READABLE: Final = "Let this process's user read it."


def absolute_path(base: Path, path: str) -> str:
    """The absolute path; a URI is returned unchanged."""
    return path if "://" in path else str((base / Path(path).expanduser()).absolute())


def text_of(path: Path, advice: str) -> str:
    """The text of a UTF-8 file. Raises ConfigError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        advice = READABLE if isinstance(error, PermissionError) else advice
        raise ConfigError(
            str(path), "a file that can be read", error.strerror or type(error).__name__, advice
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(str(path), "UTF-8 text", "other bytes", "Save the file as UTF-8.") from None


def read_toml(path: Path) -> Mapping[str, Any]:
    """Read a TOML file. An error names the line but does not quote it."""
    try:
        return tomllib.loads(text_of(path, "Name the file that was given to cdc with --config."))
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at .*\)", str(error))
        found = f"a mistake {place[0]}" if place else "a mistake"
        raise ConfigError(str(path), "TOML", found, "Correct the file.") from None


def matching_files(base: Path, pattern: str) -> tuple[Path, ...]:
    """The files that match a path or glob, sorted. Raises ConfigError if there is none."""
    full = Path(absolute_path(base, pattern))
    candidates = [full] if full.is_file() else Path(full.anchor).glob(str(full.relative_to(full.anchor)))
    found = tuple(sorted(path for path in candidates if path.is_file()))
    if not found:
        raise ConfigError("", "files", "none that match", "Correct the path, or remove it.")
    return found
