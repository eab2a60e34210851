"""The health of the pipeline: current numbers, and their history."""

from __future__ import annotations

import html
import math

from bokeh.models import ColumnDataSource, DataRange1d, Div, NumeralTickFormatter
from bokeh.plotting import figure

from muntin.watching.health import Health
from muntin.watching.view import FAINT, INK, times
from muntin.watching.watched import Watched, health_of_rows

_CHARTS = {"rate": "rows a second", "lag": "watermark lag, s", "batch": "time a batch, ms"}
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def count(value: float | None) -> str:
    """Return a number as readable text.

    >>> count(1234567), count(12.3), count(None)
    ('1,234,567', '12', '-')
    """
    return "-" if value is None else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """Return a duration as readable text.

    >>> duration(0.0123), duration(0.0004), duration(75), duration(7200), duration(None)
    ('12 ms', '0.4 ms', '1.2 min', '2.0 h', '-')
    """
    if seconds is None:
        return "-"
    if abs(seconds) < 1:
        return f"{seconds * 1_000:.{0 if abs(seconds) >= 0.01 else 1}f} ms"
    for length, unit in _UNITS:
        if abs(seconds) >= length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s"


def size(amount: float | None) -> str:
    """Return a number of bytes as readable text.

    >>> size(123), size(5_300_000)
    ('123 B', '5.3 MB')
    """
    if amount is None:
        return "-"
    power = 0 if amount < 1_000 else min(4, int(math.log10(amount)) // 3)
    return f"{amount / 1_000**power:.{0 if power == 0 else 1}f} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def tiles(health: Health | None, rate: float | None, windows: tuple[int, int] | None) -> list[tuple[str, str]]:
    """Return the numbers to show, each with its title."""
    known = health or Health(at=0.0, rows=0)
    emitted = [] if windows is None else [("windows out", count(windows[0])), ("revisions", count(windows[1]))]
    return [
        ("rows a second", count(rate)),
        ("rows", count(known.rows if health else None)),
        ("watermark lag", duration(known.lag)),
        ("late rows", count(known.late)),
        ("dropped rows", count(known.dropped)),
        *emitted,
        ("keys", count(known.keys)),
        ("slices", count(known.slices)),
        ("state", size(known.bytes)),
        ("time a batch", duration(known.batch_seconds)),
    ]


class HealthPanel:
    """Tiles with numbers, and three small charts."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self.tiles = Div(sizing_mode="stretch_width", disable_math=True, name="health")
        self._sources = {name: ColumnDataSource({"at": [], "value": []}) for name in _CHARTS}
        self.charts = [self._chart(self._sources[name], title) for name, title in _CHARTS.items()]

    def _chart(self, source: ColumnDataSource, title: str) -> figure:
        chart = figure(
            title=title,
            height=120,
            x_axis_type="datetime",
            x_range=DataRange1d(min_interval=30_000, range_padding=0),
            y_range=DataRange1d(start=0, min_interval=1),
            tools="",
            toolbar_location=None,
            sizing_mode="stretch_width",
        )
        chart.line("at", "value", source=source, color=INK, line_width=1.2)
        chart.varea("at", 0, "value", source=source, color=FAINT, fill_alpha=0.15)
        chart.title.text_font_size = "11px"
        chart.title.text_color = INK
        chart.axis.major_label_text_font_size = "10px"
        chart.axis.minor_tick_line_color = None
        chart.grid.grid_line_color = "#eef1f4"
        chart.outline_line_color = None
        chart.xaxis.formatter = times()
        chart.xaxis.ticker.desired_num_ticks = 4
        chart.yaxis.ticker.desired_num_ticks = 3
        chart.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
        return chart

    def draw(self) -> None:
        """Draw the current state."""
        watched = self._watched
        health, rate = watched.health[-1] if watched.health else (None, None)
        if health is None and watched.rows is not None and watched.rows.count:  # the run has ended, or does not report
            health = health_of_rows(watched.rows, None)
        windows = None if watched.windows is None else (watched.windows.count, watched.windows.revised)
        self.tiles.text = "".join(
            f'<div style="display:inline-block;min-width:104px;padding:6px 14px 6px 0">'
            f'<div style="font-size:11px;color:#5b6772">{html.escape(title)}</div>'
            f'<div style="font-size:17px;font-weight:600;color:{INK}">{html.escape(text)}</div></div>'
            for title, text in tiles(health, rate, windows)
        )
        self._draw_charts(list(watched.health))

    def _draw_charts(self, looks: list[tuple[Health, float | None]]) -> None:
        """Draw the history; hides charts without data."""
        values = {
            "rate": [rate for _, rate in looks],
            "lag": [each.lag for each, _ in looks],
            "batch": [None if each.batch_seconds is None else each.batch_seconds * 1_000 for each, _ in looks],
        }
        for chart, (name, source) in zip(self.charts, self._sources.items(), strict=True):
            known = [
                (each.at * 1_000, value)
                for (each, _), value in zip(looks, values[name], strict=True)
                if value is not None
            ]
            source.data = {"at": [at for at, _ in known], "value": [value for _, value in known]}
            chart.visible = bool(known)
