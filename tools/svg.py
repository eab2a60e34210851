"""A few shapes as SVG, in colours that can be read on a light page and on a dark one."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
INKS = ("blue", "orange", "green", "red", "violet", "brown", "grey")
"""The classes of colours, in the order in which a drawing uses them."""
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333; }
.code { font-family: ui-monospace, monospace; }
.title { font-weight: 600; }
.faint { fill: #777; }
.middle { text-anchor: middle; } .end { text-anchor: end; }
.axis { stroke: #999; fill: none; } .grid { stroke: #ddd; fill: none; }
.blue { fill: #cfe0f3; stroke: #2f6db0; } .orange { fill: #fbe0c4; stroke: #c46a12; }
.green { fill: #d3ecd0; stroke: #3c8d37; }
.red { fill: #f6d1d1; stroke: #c03434; } .violet { fill: #e2d6f0; stroke: #7a52ad; }
.brown { fill: #e6dacf; stroke: #8a6242; }
.grey { fill: #e8e8e8; stroke: #777; } .line { fill: none; stroke-width: 2; } .dot { stroke: none; fill: #333; }
.late { stroke: none; fill: #c03434; }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd; } .faint { fill: #999; } .axis { stroke: #888; } .grid { stroke: #444; } .dot { fill: #ddd; }
  .blue { fill: #24415f; stroke: #7fb2e6; } .orange { fill: #5c3a16; stroke: #f0a860; }
  .green { fill: #27482a; stroke: #86cf80; }
  .red { fill: #5a2828; stroke: #ee8a8a; } .violet { fill: #40325a; stroke: #bd9fe6; }
  .brown { fill: #4a3a2c; stroke: #c9a17e; }
  .grey { fill: #3a3d44; stroke: #aaa; } .line { fill: none; } .late { fill: #ee8a8a; }
}
"""


class Drawing:
    """Shapes on a sheet that is as large as they need."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.shapes: list[str] = []
        self.width = self.height = 0.0

    def reach(self, x: float, y: float) -> None:
        """Make the sheet at least so large."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    def box(self, x: float, y: float, width: float, height: float, kind: str, hint: str = "") -> None:
        """Draw a rectangle; `hint` shows where the pointer rests on it."""
        inside = f"<title>{html.escape(hint)}</title>" if hint else ""
        size = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}"'
        self.shapes.append(f'<rect {size} rx="2" class="{kind}">{inside}</rect>')
        self.reach(x + width, y + height)

    def line(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Draw a line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.shapes.append(f'<polyline points="{path}" class="{kind}"/>')
        for x, y in points:
            self.reach(x, y)

    def dot(self, x: float, y: float, kind: str = "dot", radius: float = 4) -> None:
        """Draw a point."""
        self.shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{kind}"/>')
        self.reach(x + radius, y + radius)

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Write text; `kind` may be several classes."""
        self.shapes.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{html.escape(text)}</text>')
        self.reach(x + (0 if "end" in kind or "middle" in kind else 6.6 * len(text)), y + 4)

    def svg(self) -> str:
        """Return the sheet."""
        width, height = self.width + 8, self.height + 6
        size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        shapes = "\n".join(self.shapes)
        return f"{head}\n<title>{html.escape(self.title)}</title>\n<style>{_STYLE}</style>\n{shapes}\n</svg>\n"

    def write(self, name: str, folder: Path = FIGURES) -> Path:
        """Write the sheet into the folder of the figures."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.svg"
        path.write_text(self.svg())
        return path
