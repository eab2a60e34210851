"""Draws charts of what was measured as SVG: lines over a number that grows, named at their ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from charts import Chart
from svg import INKS, Drawing

LEFT, TOP, WIDTH, HEIGHT = 64, 48, 430, 220


def draw(chart: Chart) -> Drawing:
    """Return the drawing of a chart. Ours, the first line, is the thickest."""
    drawing = Drawing(chart.title)
    drawing.text(8, 14, chart.title, "title")
    values = [y for line in chart.lines.values() for y in line if y is not None]
    along, ticks_x = _scale(chart.at, chart.log_x, LEFT, LEFT + WIDTH)
    up, ticks_y = _scale([*values, *([] if chart.log_y else [0.0])], chart.log_y, TOP + HEIGHT, TOP)
    for tick in ticks_y:
        drawing.line([(LEFT, up(tick)), (LEFT + WIDTH, up(tick))], "grid")
        drawing.text(LEFT - 6, up(tick) + 4, short(tick), "end faint")
    for tick in ticks_x:
        drawing.line([(along(tick), TOP + HEIGHT), (along(tick), TOP + HEIGHT + 4)], "axis")
        drawing.text(along(tick), TOP + HEIGHT + 17, short(tick), "middle faint")
    drawing.line([(LEFT, TOP), (LEFT, TOP + HEIGHT), (LEFT + WIDTH, TOP + HEIGHT)], "axis")
    drawing.text(LEFT + WIDTH / 2, TOP + HEIGHT + 34, chart.x, "middle")
    drawing.text(8, TOP - 16, chart.y, "faint")
    _lines(drawing, chart, along, up)
    return drawing


def _lines(drawing: Drawing, chart: Chart, along: Callable[[float], float], up: Callable[[float], float]) -> None:
    ends: list[tuple[float, str, str]] = []
    for ink, (name, line) in zip(INKS * 3, chart.lines.items(), strict=False):
        points = [(along(x), up(y)) for x, y in zip(chart.at, line, strict=True) if y is not None]
        if not points:
            continue
        drawing.line(points, f"{ink} line")
        for x, y in points:
            drawing.dot(x, y, ink, 3)
        ends.append((points[-1][1], name, ink))
    below = -math.inf
    for y, name, ink in sorted(ends):  # names keep apart
        below = max(y, below + 14)
        drawing.dot(LEFT + WIDTH + 14, below, ink, 3)
        drawing.text(LEFT + WIDTH + 22, below + 4, name)


def _scale(
    values: Sequence[float], log: bool, start: float, stop: float
) -> tuple[Callable[[float], float], Sequence[float]]:
    """Return where a value lies on an axis, and which values are marked on it."""
    low, high = min(values), max(values)
    if log:
        low, high = 10 ** math.floor(math.log10(low) + 1e-9), 10 ** math.ceil(math.log10(high) - 1e-9)
        high = high if high > low else low * 10
        decades = round(math.log10(high / low))
        step = 1 + decades // 8
        marks = [low * 10.0**i for i in range(0, decades + 1, step)]
        return lambda value: start + (stop - start) * math.log10(value / low) / math.log10(high / low), marks
    step = 10 ** math.floor(math.log10(high - low)) if high > low else 1.0
    step = step / 2 if (high - low) / step < 3 else step
    high = low + step * math.ceil((high - low) / step - 1e-9)
    marks = [low + step * i for i in range(round((high - low) / step) + 1)]
    return lambda value: start + (stop - start) * (value - low) / (high - low), marks


def short(value: float) -> str:
    """Return a number as it stands on an axis.

    >>> short(1000), short(2_500_000), short(0.5), short(1e9)
    ('1 k', '2.5 M', '0.5', '1 G')
    """
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= unit * 0.999:
            return f"{value / unit:g}{name}"
    return f"{value:g}"
