"""Compares changelogs with the true changes."""

from __future__ import annotations

from collections import Counter


def difference(found: Counter, wanted: Counter) -> str:
    missing, extra = list((wanted - found).elements()), list((found - wanted).elements())
    return f"{len(missing)} missing, such as {missing[:1]}; {len(extra)} too many, such as {extra[:1]}"
