"""Raw rows at every zoom: a line per key, pixel for pixel that of all its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure

from muntin.watching.axis import Axis
from muntin.watching.m4 import Frame
from muntin.watching.rows import Rows
from muntin.watching.view import COLOURS, KeyLegend, View, nothing

_FEW = 300
"""Up to this many rows of a key in view, each is also a dot."""
_LINES = ("xs", "ys", "colour")
_COLUMNS = ("x", "y", "key", "count", "from", "to", "first", "last", "low", "high", "colour", "alpha")


class RowsPanel:
    """A chart of raw rows, redrawn for every zoom."""

    def __init__(self, rows: Rows, view: View) -> None:
        self._rows, self._view = rows, view
        assert rows.axis is not None
        is_time = rows.axis.is_time
        self.chart: figure = view.chart(f"{rows.column}, raw rows", 260, is_time=is_time)
        self.chart.name = "rows"
        self._lines = ColumnDataSource(nothing(*_LINES))
        self._columns = ColumnDataSource(nothing(*_COLUMNS))
        lines = self.chart.multi_line(
            "xs", "ys", source=self._lines, line_color="colour", line_width=1, line_join="round"
        )
        dots = self.chart.scatter(
            "x", "y", source=self._columns, fill_color="colour", size=6, fill_alpha="alpha", line_color=None
        )
        self._legend = KeyLegend(self.chart, lines)
        tooltips = [
            ("key", "@key"), ("rows", "@count"), ("from", "@from"), ("to", "@to"),
            ("first", "@first"), ("low", "@low"), ("high", "@high"), ("last", "@last"),
        ]  # fmt: skip
        self.chart.add_tools(
            view.hover(tooltips, is_time=is_time, times=("from", "to"), renderers=[dots], mode="mouse")
        )

    def draw(self, chosen: list[int]) -> None:
        """Draw the rows of the chosen keys in the current range. O(width (log n + 256)) for each."""
        assert self._rows.axis is not None
        lo, hi = self._view.ticks(self._rows.axis)
        lines, columns = nothing(*_LINES), nothing(*_COLUMNS)
        texts = [self._rows.keys.texts[key] for key in chosen]
        for key, text, colour in zip(chosen, texts, COLOURS, strict=False):
            frame = self._rows.series[key].frame(lo, hi, self._view.width)
            x, y = frame.line()
            left, scale = self._scale(frame)
            for name, value in zip(_LINES, (left + x * scale, y, colour), strict=True):
                lines[name].append(value)
            for name, values in self._columns_of(frame, self._rows.axis, text, colour).items():
                columns[name].append(values)
        self._lines.data = lines
        self._columns.data = {name: np.concatenate(parts) if parts else [] for name, parts in columns.items()}
        self._legend.show(texts)

    def _scale(self, frame: Frame) -> tuple[float, float]:
        """Return the start of the frame on the axis, and the length of a pixel."""
        left, right = self._view.bounds
        return left, (right - left) / frame.width

    def _columns_of(self, frame: Frame, axis: Axis, key: str, colour: str) -> dict[str, Any]:
        """Return the data shown when hovering over each pixel column."""
        left, scale = self._scale(frame)
        places, count = axis.places, len(frame.columns)
        few = int(frame.counts.sum()) <= _FEW
        return {
            "x": left + (frame.columns + 0.5) * scale,
            "y": frame.last,
            "key": np.array([key] * count, object),
            "count": frame.counts,
            "from": places(frame.first_time),
            "to": places(frame.last_time),
            "first": frame.first,
            "last": frame.last,
            "low": frame.low,
            "high": frame.high,
            "colour": np.array([colour] * count, object),
            "alpha": np.full(count, float(few)),
        }
