"""The visible part of the time axis: the range, the pixels, and whether it follows new data."""

from __future__ import annotations

import time
from typing import Any

from bokeh.models import DatetimeTickFormatter, GlyphRenderer, HoverTool, Legend, LegendItem, Range1d
from bokeh.plotting import figure

from muntin.watching.axis import Axis
from muntin.watching.watched import Watched

_MARGIN = 0.02
_USUAL_WIDTH = 1000
_LEAST_WIDTH = 10
COLOURS = ("#1f77b4", "#d1495b", "#2e8b57", "#8e5ea2", "#e08e0b", "#17a2b8", "#7f4f24", "#c2477f", "#6b7280", "#4c9f38")
"""One per chosen key: they differ in lightness as well as in hue."""
INK, FAINT, ALERT, LATE = "#1f2933", "#8a94a0", "#c81e1e", "#b45309"


def times(*, dated: bool = False) -> DatetimeTickFormatter:
    """Return a formatter of times for an axis; with the day below if `dated`."""
    context = {"context": "%Y-%m-%d", "context_which": "start"} if dated else {}
    return DatetimeTickFormatter(
        microseconds="%H:%M:%S.%f",
        milliseconds="%H:%M:%S.%3N",
        seconds="%H:%M:%S",
        minsec="%H:%M:%S",
        minutes="%H:%M",
        hourmin="%H:%M",
        hours="%H:%M",
        days="%b %d",
        months="%Y-%m",
        years="%Y",
        **context,
    )


def nothing(*names: str) -> dict[str, Any]:
    """Return empty columns."""
    return {name: [] for name in names}


class KeyLegend:
    """A legend with an entry per line of a glyph that draws many."""

    def __init__(self, chart: figure, lines: GlyphRenderer) -> None:
        self._lines = lines
        self._texts: list[str] = []
        self._legend = Legend(items=[], orientation="horizontal", location="left", margin=0, padding=2)
        self._legend.update(border_line_color=None, label_text_font_size="11px")
        chart.add_layout(self._legend, "above")

    def show(self, texts: list[str]) -> None:
        """Show these texts, one per line."""
        if texts != self._texts:
            self._texts = texts
            self._legend.items = [
                LegendItem(label={"value": text}, renderers=[self._lines], index=place)
                for place, text in enumerate(texts)
            ]


class View:
    """The range that all charts of a page share."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        now = time.time() * 1_000
        self.range = Range1d(now - 60_000, now)
        self.follows = True
        """Whether the range ends with the newest data."""
        self._is_new = True
        self.width = _USUAL_WIDTH
        """The width of a chart in pixels, as reported by the browser."""

    @property
    def axis(self) -> Axis:
        """The time axis; only once there is data."""
        axis = self._watched.axis
        assert axis is not None
        return axis

    @property
    def bounds(self) -> tuple[float, float]:
        """The range, as places on the axis."""
        lo, hi = float(self.range.start), float(self.range.end)
        return (lo, hi) if lo < hi else (hi, lo)

    def ticks(self, axis: Axis) -> tuple[int, int]:
        """Return the range as times of an axis, [lo, hi), at least one: rows and answers may differ in units."""
        lo, hi = (axis.tick(place) for place in self.bounds)
        return lo, max(hi, lo + 1)

    def set_width(self, width: int | None) -> None:
        """Set the width reported by the browser."""
        if width is not None and width >= _LEAST_WIDTH:
            self.width = width

    def zoomed(self, lo: float, hi: float) -> None:
        """Set the range after a zoom: it follows new data if it reaches the end."""
        self.range.update(start=lo, end=hi)
        span = self._watched.span
        self.follows = span is not None and hi >= span[1]
        self._is_new = False

    def show_all(self) -> None:
        """Show everything, and follow."""
        self._is_new = self.follows = True
        self.follow()

    def follow(self) -> None:
        """Advance with new data, if following: all of it at first, then a range of the same length."""
        span = self._watched.span
        if span is None or not self.follows:
            return
        begin, end = span
        length = max(end - begin, 1e-6 * abs(end), 1.0)
        if self._is_new:
            self.range.update(start=begin - _MARGIN * length, end=end + _MARGIN * length)
            return
        shown = self.bounds[1] - self.bounds[0]
        self.range.update(start=end + _MARGIN * shown - shown, end=end + _MARGIN * shown)

    def chart(self, title: str, height: int, *, is_time: bool) -> figure:
        """Return an empty chart over this range."""
        chart = figure(
            title=title,
            height=height,
            x_range=self.range,
            x_axis_type="datetime" if is_time else "linear",
            tools="xpan,xwheel_zoom,xbox_zoom",
            active_drag="xpan",
            active_scroll="xwheel_zoom",
            sizing_mode="stretch_width",
            toolbar_location="right",
            output_backend="canvas",
            min_border_left=70,
            min_border_right=20,
            lod_threshold=None,
            background_fill_color="#fcfcfd",
        )
        chart.toolbar.logo = None
        chart.title.text_font_size = "13px"
        chart.title.text_color = INK
        chart.grid.grid_line_color = "#e9edf1"
        chart.outline_line_color = "#d5dbe1"
        chart.axis.axis_line_color = chart.axis.major_tick_line_color = "#9aa5b1"
        chart.axis.minor_tick_line_color = None
        chart.axis.major_label_text_color = INK
        chart.axis.major_label_text_font_size = "11px"
        if is_time:
            chart.xaxis.formatter = times()
        chart.yaxis.formatter.use_scientific = False
        return chart

    def hover(
        self, tooltips: list[tuple[str, str]], *, is_time: bool, times: tuple[str, ...] = (), **options: object
    ) -> HoverTool:
        """Return a tool that shows columns, those in `times` as times. Data is shown as plain text."""
        formats = {f"@{name}": "datetime" for name in times} if is_time else {}
        shown = [
            (title, f"{text}{{%F %T.%3N}}" if is_time and text.removeprefix("@") in times else text)
            for title, text in tooltips
        ]
        return HoverTool(tooltips=shown, formatters=formats, **options)
