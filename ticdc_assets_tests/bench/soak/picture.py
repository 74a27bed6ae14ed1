"""The curves of a soak as a picture: lag, memory and files, one above the other, over the same minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

WIDTH: Final = 720
HEIGHT: Final = 130
LEFT: Final = 60
GAP: Final = 50
COLORS: Final = ("#1f6feb", "#d1242f")

Point = Mapping[str, Any]


@dataclass(frozen=True)
class Panel:
    """Curves of one unit: by the column of the points, their name."""

    title: str
    curves: Mapping[str, str]


PANELS: Final = (
    Panel("age of the newest complete TSO when it was recorded, s", {"lag_s": "lag"}),
    Panel("memory, MB", {"driver_mb": "driver", "children_mb": "its JVM and workers"}),
    Panel("files of all current snapshots", {"data_files": "data", "delete_files": "deletes"}),
)


def picture(points: Sequence[Point]) -> str:
    """An SVG of the points of a soak's curve."""
    height = len(PANELS) * (HEIGHT + GAP) + GAP
    panels = [part for n, panel in enumerate(PANELS) for part in _drawn(panel, points, n * (HEIGHT + GAP) + GAP)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif"'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([f'{head} font-size="12">', ground, *panels, "</svg>", ""])


def _drawn(panel: Panel, points: Sequence[Point], top: int) -> list[str]:
    end_s = max(float(point["second"]) for point in points)
    most = max(float(point[name] or 0) for point in points for name in panel.curves) or 1.0
    bottom, right = top + HEIGHT, WIDTH - 20
    parts = [
        f'<text x="{LEFT}" y="{top - 10}">{panel.title}</text>',
        f'<path d="M{LEFT},{top} V{bottom} H{right}" fill="none" stroke="#57606a"/>',
        f'<text x="{LEFT - 5}" y="{top + 10}" text-anchor="end">{most:,.0f}</text>',
        f'<text x="{LEFT - 5}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{right}" y="{bottom + 15}" text-anchor="end">{end_s / 60:.0f} min</text>',
    ]
    for number, (name, label) in enumerate(panel.curves.items()):
        places = [
            f"{LEFT + float(p['second']) / end_s * (right - LEFT):.1f},{bottom - float(p[name]) / most * HEIGHT:.1f}"
            for p in points
            if p[name] not in (None, "")
        ]
        color = COLORS[number]
        parts.append(f'<polyline points="{" ".join(places)}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        place = right - 150 * (len(panel.curves) - 1 - number)
        parts.append(f'<text x="{place}" y="{top - 10}" text-anchor="end" fill="{color}">{label}</text>')
    return parts
