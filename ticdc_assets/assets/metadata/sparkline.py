"""A small chart of a table's rows and lag over recent records: inline SVG, a few hundred bytes, no row values."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

from ticdc_assets.assets.metadata.history_points import Point
from ticdc_assets.plurals import duration

WIDTH: Final = 360
HEIGHT: Final = 96
_TOP: Final = 22
_BAND: Final = (HEIGHT - _TOP - 6) // 2 - 2
"""The height of one line's own part of the chart: rows above, lag below, so that no line hides the other."""


def chart_markdown(points: Sequence[Point]) -> str:
    """The chart as Markdown, with its numbers as alternative text."""
    if not points:
        return "no record yet"
    newest = points[-1]
    rows = "no mirror" if newest.rows is None else f"{newest.rows:,} rows"
    records = "1 record" if len(points) == 1 else f"{len(points)} records"
    alt = f"{rows}, {duration(newest.lag_s)} behind the clock, over {records}"
    encoded = base64.b64encode(svg(points).encode()).decode()
    return f"![{alt}](data:image/svg+xml;base64,{encoded})\n\n{alt}"


def svg(points: Sequence[Point]) -> str:
    """Two lines over the same records, one above the other, each scaled to its own maximum."""
    rows = [float(point.rows or 0) for point in points]
    lags = [max(point.lag_s, 0.0) for point in points]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        f'<text x="4" y="14" fill="#2563eb">rows, up to {max(rows):,.0f}</text>'
        f'<text x="{WIDTH - 4}" y="14" fill="#d97706" text-anchor="end">lag, up to {duration(max(lags))}</text>'
        f"{_line(rows, _TOP, '#2563eb')}{_line(lags, HEIGHT - 6 - _BAND, '#d97706')}</svg>"
    )


def _line(values: Sequence[float], top_px: int, colour: str) -> str:
    most = max(values) or 1.0
    step = (WIDTH - 8) / max(len(values) - 1, 1)
    places = [f"{4 + n * step:.0f},{top_px + _BAND * (1 - value / most):.0f}" for n, value in enumerate(values)]
    if len(places) == 1:
        places.append(f"{WIDTH - 4},{places[0].partition(',')[2]}")
    return f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{" ".join(places)}"/>'


def plain_seconds(seconds: float) -> float:
    """A duration in seconds for plots: above a minute to the second, else to the millisecond."""
    return round(seconds, 0 if seconds > 60 else 3)
