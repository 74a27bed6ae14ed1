"""Reads the file and the environment into a `Config`. All problems of a file are reported at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from ticdc_assets.config.model.config import Config
from ticdc_assets.config.reading.files import text_of
from ticdc_assets.config.reading.sections import Problems, Section, parse_yaml
from ticdc_assets.errors import ConfigError

CONFIG_VARIABLE: Final = "TICDC_ASSETS_CONFIG"
SCHEMA: Final = Path(str(files("ticdc_assets"))) / "config" / "changefeeds.schema.json"
"""The JSON Schema of the file, for editors."""
PACKAGED_SAMPLE: Final = Path(str(files("ticdc_assets"))) / "sample"


def editor_line(folder: Path) -> str:
    """The first line of a config in this folder, by which editors find the JSON Schema and check what is typed.

    The path is relative where the installation is below the folder, as a virtual environment in a project is.
    """
    path = os.path.relpath(SCHEMA, folder) if SCHEMA.is_relative_to(folder.absolute()) else SCHEMA.as_uri()
    return f"# yaml-language-server: $schema={path}\n"


def load(
    path: Path | None, environ: Mapping[str, str], advice: str = f"Give --config, or set {CONFIG_VARIABLE}."
) -> Config:
    """The config at `path`, else at TICDC_ASSETS_CONFIG, else the packaged sample.

    Args:
        advice: how to name another file, for the error if this one cannot be read.

    Raises:
        ConfigError: the config is invalid; the message has all its faults and no credential.
    """
    named = environ.get(CONFIG_VARIABLE)
    if path is None and not named:
        return _read(PACKAGED_SAMPLE / "changefeeds.yaml", environ, Path.cwd(), advice)
    chosen = (path if path is not None else Path(str(named))).expanduser().absolute()
    return _read(chosen, environ, chosen.parent, advice)


def _read(path: Path, environ: Mapping[str, str], lake: Path, advice: str) -> Config:
    problems = Problems(str(path))
    text = text_of(path, advice)
    try:
        values = parse_yaml(text)
    except ConfigError as error:
        problems.take(error)
        values = None
    problems.raise_if_any()
    return _checked(Section(values or {}, "", problems), environ, path, lake)


def config_within(file: Path, key: str, values: Mapping[str, Any], environ: Mapping[str, str], base: Path) -> Config:
    """The config below a key of another file.

    Args:
        values: blocks, which have the lines of their keys.
        base: the folder of the lake, from which relative paths start too.

    Raises:
        ConfigError: the config is invalid; the message has all its faults and no credential.
    """
    return _checked(Section(values, key, Problems(str(file))), environ, base / file.name, base)


def _checked(root: Section, environ: Mapping[str, str], path: Path, lake: Path) -> Config:
    from ticdc_assets.config.keys.config_file import (
        config_of,  # pydantic and the models take time, and workers need none
    )

    config = config_of(root, environ, path, lake)
    root.problems.raise_if_any()
    return config
