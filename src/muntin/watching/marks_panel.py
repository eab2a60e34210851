"""A strip along the time axis: the watermark, and the rows that arrived behind it."""

from __future__ import annotations

from bokeh.models import ColumnDataSource, Label, Span
from bokeh.plotting import figure

from muntin.watching.view import ALERT, LATE, View, times
from muntin.watching.watched import Watched


class Watermark:
    """A line across a chart at the watermark."""

    def __init__(self, chart: figure) -> None:
        self._line = Span(
            location=0, dimension="height", line_color=ALERT, line_dash="dashed", line_width=1.5, visible=False
        )
        chart.add_layout(self._line)

    def draw(self, place: float | None) -> None:
        """Move the line; hide it if there is no watermark."""
        self._line.update(location=place or 0, visible=place is not None)


class MarksPanel:
    """The strip. It has no values: its y axis only names the marks."""

    def __init__(self, watched: Watched, view: View) -> None:
        self._watched, self._view = watched, view
        self.chart: figure = view.chart("", 92, is_time=view.axis.is_time)
        self.chart.title.visible = False
        if view.axis.is_time:
            self.chart.xaxis.formatter = times(dated=True)
        self.chart.y_range.update(start=0.0, end=1.0)
        self.chart.yaxis.update(ticker=[0.3], major_label_overrides={0.3: "late rows"})
        self.chart.ygrid.visible = False
        self.chart.toolbar_location = None
        self._late = ColumnDataSource({"x": [], "y": []})
        self.chart.scatter(
            "x", "y", source=self._late, marker="triangle", size=9, color=LATE, fill_alpha=0.7, line_color=None
        )
        self._label = Label(
            x=0,
            y=0.62,
            text="",
            text_color=ALERT,
            text_font_size="11px",
            x_offset=-6,
            text_align="right",
            visible=False,
        )
        self.chart.add_layout(self._label)
        self._watermark = Watermark(self.chart)

    def draw(self) -> None:
        """Draw the current state."""
        watermark = self._watched.watermark
        self._watermark.draw(watermark)
        if watermark is not None:
            axis = self._view.axis
            self._label.update(x=watermark, text=f"watermark {axis.text(axis.tick(watermark))}", visible=True)
        rows = self._watched.rows
        if rows is not None and rows.axis is not None:
            lo, hi = self._view.ticks(rows.axis)
            inside = [rows.axis.place(tick) for tick in rows.late_marks if lo <= tick <= hi]
            self._late.data = {"x": inside, "y": [0.3] * len(inside)}
