"""The windows of one definition over time: bars or a line; revised ones are marked, and flash at first."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure

from muntin.types import Array
from muntin.watching.axis import Axis
from muntin.watching.m4 import thinned
from muntin.watching.view import ALERT, COLOURS, KeyLegend, View, nothing
from muntin.watching.watched import Watched
from muntin.watching.windows import Drawn

FLASH = 2.0
"""Seconds that a revised window flashes."""
_MOST_BARS = 1_500
"""More windows in view are drawn as a line, since bars would be indistinguishable."""
_POINTS = ("left", "right", "x", "y", "key", "aggregate", "start", "end", "revision", "earlier", "colour", "alpha")
_FLASHES = ("left", "right", "x", "y")


class WindowsPanel:
    """A chart of the windows with one `window_id`. One glyph draws all keys: creating glyphs is what takes time."""

    def __init__(self, watched: Watched, window_id: int, title: str, view: View) -> None:
        self._watched, self._id, self._view = watched, window_id, view
        self.chart: figure = view.chart(title, 190, is_time=view.axis.is_time)
        self.chart.name = f"window {window_id}"
        self._lines = ColumnDataSource(nothing("xs", "ys", "colour"))
        self._bars = ColumnDataSource(nothing(*_POINTS))
        self._points = ColumnDataSource(nothing(*_POINTS))
        self._flash = ColumnDataSource(nothing(*_FLASHES))
        bars = self.chart.quad(
            "left", "right", "y", 0, source=self._bars, fill_color="colour", fill_alpha=0.18, line_color="colour"
        )
        lines = self.chart.multi_line("xs", "ys", source=self._lines, line_color="colour", line_width=1.5)
        points = self.chart.scatter(
            "x", "y", source=self._points, size=5, fill_color="white", line_color=ALERT, alpha="alpha"
        )
        flash = {"source": self._flash, "fill_color": ALERT, "line_color": ALERT, "fill_alpha": 0.5}
        self.chart.quad("left", "right", "y", 0, **flash)
        self.chart.scatter("x", "y", size=13, **flash)
        self._legend = KeyLegend(self.chart, lines)
        tooltips = [
            ("key", "@key"), ("window", "@start to @end"), ("aggregate", "@aggregate"), ("value", "@y{0,0.[0000]}"),
            ("revision", "@revision"), ("earlier values", "@earlier"),
        ]  # fmt: skip
        self.chart.add_tools(view.hover(tooltips, is_time=False, renderers=[bars, points], mode="mouse"))

    @property
    def is_flashing(self) -> bool:
        """Whether a window flashes now, so that it must be redrawn soon."""
        return bool(self._flash.data["x"])

    def draw(self, keys: list[int], aggregates: list[str]) -> None:
        """Draw the windows of the chosen keys and aggregates in the current range."""
        windows = self._watched.windows
        assert windows is not None
        assert windows.axis is not None
        lo, hi = self._view.ticks(windows.axis)
        found = {key: windows.look(self._id, key, aggregates, lo, hi) for key in keys}
        as_bars = all(not each.overlap and len(each.ends) <= _MOST_BARS for each in found.values())
        pairs = [(key, name) for key in keys for name in aggregates][: len(COLOURS)]
        lines, points, flashes = nothing("xs", "ys", "colour"), nothing(*_POINTS), nothing(*_FLASHES)
        for colour, (key, name) in zip(COLOURS, pairs, strict=False):
            data = self._data(found[key], windows.axis, name, as_bars=as_bars)
            count = len(data["x"])
            data |= {"key": [windows.keys.texts[key]] * count, "aggregate": [name] * count, "colour": [colour] * count}
            _add_flashes(flashes, data, as_bars=as_bars)
            lines["xs"].append([] if as_bars else data["x"])
            lines["ys"].append([] if as_bars else data["y"])
            lines["colour"].append(colour)
            for column in _POINTS:
                points[column].append(_column(data[column]))
        joined: dict[str, Any] = {column: np.concatenate(parts) if parts else [] for column, parts in points.items()}
        self._lines.data, self._points.data = lines, joined
        self._bars.data = joined if as_bars else nothing(*_POINTS)
        self._flash.data = flashes
        self._legend.show([f"{name}  {windows.keys.texts[key]}" for key, name in pairs])

    def _data(self, drawn: Drawn, axis: Axis, name: str, *, as_bars: bool) -> dict[str, Any]:
        starts, ends = axis.places(drawn.starts), axis.places(drawn.ends)
        x, y = (starts + ends) / 2 if as_bars else ends, drawn.values[name]
        kept = np.flatnonzero(~np.isnan(y))
        if not as_bars and len(kept) > 4 * self._view.width:
            kept = kept[thinned(x[kept], y[kept], *self._view.bounds, self._view.width)]
        rows = kept.tolist()
        return {
            "left": starts[kept],
            "right": ends[kept],
            "x": x[kept],
            "y": y[kept],
            "start": [axis.text(int(drawn.starts[i])) for i in rows],
            "end": [axis.text(int(drawn.ends[i])) for i in rows],
            "revision": drawn.revisions[kept],
            "earlier": [drawn.earlier[i] for i in rows],
            "alpha": (drawn.revisions[kept] > 0).astype(np.float64),
            "arrival": drawn.arrivals[kept],
        }


def _column(values: Array | list[str]) -> Array:
    """Return a column as an array: of objects, if it holds texts."""
    return np.array(values, object) if isinstance(values, list) else values


def _add_flashes(flashes: dict[str, Any], data: dict[str, Any], *, as_bars: bool) -> None:
    """Add the windows revised a moment ago."""
    new: Array = np.flatnonzero((data["revision"] > 0) & (data["arrival"] > time.time() - FLASH))
    shown = {"left": "left", "right": "right"} if as_bars else {"left": "x", "right": "x"}
    for name, column in {**shown, "x": "x", "y": "y"}.items():
        flashes[name] += data[column][new].tolist()
