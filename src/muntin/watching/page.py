"""The page: the chosen keys and aggregates, and all panels one below the other."""

from __future__ import annotations

import html
import re
from typing import Any

from bokeh.document import Document
from bokeh.events import RangesUpdate
from bokeh.layouts import column, row
from bokeh.models import Button, Div, MultiChoice, Spacer, Toggle
from bokeh.plotting import figure

from muntin.watching.health_panel import HealthPanel
from muntin.watching.marks_panel import MarksPanel, Watermark
from muntin.watching.plan_picture import picture_of
from muntin.watching.rows_panel import RowsPanel
from muntin.watching.view import COLOURS, View
from muntin.watching.watched import Watched
from muntin.watching.windows_panel import WindowsPanel

_EVERY = 250
"""Milliseconds between two polls for changes."""
_MOST_KEYS = 2_000
"""The number of keys to choose from: the first ones."""
_FIRST_KEYS = 3
"""The number of keys shown by default."""
_PLAIN_TITLE = "window"


class Page:
    """One browser's page. The data behind it is shared by all."""

    def __init__(self, document: Document, watched: Watched) -> None:
        self._document, self._watched = document, watched
        self._view = View(watched)
        self._seen = -1
        self._texts_offered: list[str] = []
        self._aggregates_offered: list[str] = []
        self._names: dict[str, str] = {}
        """The widget's name of each key."""
        self._health = HealthPanel(watched)
        self._title = Div(sizing_mode="stretch_width", disable_math=True)
        self._problem = Div(sizing_mode="stretch_width", disable_math=True, visible=False)
        self._keys = MultiChoice(title="keys", options=[], value=[], sizing_mode="stretch_width", name="keys")
        self._aggregates = MultiChoice(title="aggregates", options=[], value=[], sizing_mode="stretch_width")
        self._follow = Toggle(label="Follow", active=True, button_type="primary", width=90, name="follow")
        self._all = Button(label="Show all", width=90, name="all")
        self._rows: RowsPanel | None = None
        self._windows: dict[int, WindowsPanel] = {}
        self._marks: MarksPanel | None = None
        self._watermarks: list[Watermark] = []
        self._plan: dict[str, Any] | None = None
        # Before any data there is nothing to show, and Bokeh warns of empty columns.
        self._panels = column(Spacer(height=0), sizing_mode="stretch_width")
        self._below = column(Spacer(height=0), sizing_mode="stretch_width")

    def open(self) -> None:
        """Put everything on the page, and keep it up to date."""
        self._title.text = (
            f'<div style="font-size:20px;font-weight:600">muntin '
            f'<span style="font-weight:400;color:#5b6772">{html.escape(self._watched.title)}</span></div>'
        )
        buttons = row(self._follow, self._all, styles={"margin-top": "18px"})
        choices = row(self._keys, self._aggregates, buttons, sizing_mode="stretch_width")
        health = row(*self._health.charts, sizing_mode="stretch_width")
        everything = [self._title, self._problem, self._health.tiles, choices, self._panels, health, self._below]
        self._document.title = f"muntin: {self._watched.title}"
        for choice in (self._keys, self._aggregates):
            choice.on_change("value", lambda _name, _old, _new: self._draw())
        self._follow.on_change("active", self._followed)
        self._all.on_click(self._show_all)
        self._look()  # before the document owns the models: it recounts them on each change
        self._document.add_root(column(*everything, sizing_mode="stretch_width", styles={"padding": "10px 18px"}))
        self._document.add_periodic_callback(self._look, _EVERY)

    # ------------------------------------------------------------ events

    def _look(self) -> None:
        """Redraw if there is new data, or a window flashes."""
        with self._watched.lock():
            flashing = any(panel.is_flashing for panel in self._windows.values())
            if self._seen == self._watched.version and not flashing:
                return
            self._seen = self._watched.version
            self._offer()
            self._build()
            self._view.follow()
            self._draw()
            self._health.draw()
            self._draw_plan()
            problem = self._watched.problem
            self._problem.visible = problem is not None
            self._problem.text = f'<div style="color:#c81e1e">{html.escape(problem or "")}</div>'

    def _zoomed(self, event: RangesUpdate) -> None:
        with self._watched.lock():
            self._view.zoomed(event.x0, event.x1)
            self._follow.active = self._view.follows
            self._draw()

    def _followed(self, _name: str, _old: bool, active: bool) -> None:
        with self._watched.lock():
            if active == self._view.follows:
                return  # the button was set to match the range: the caller draws
            self._view.follows = active
            self._view.follow()
            self._draw()

    def _show_all(self) -> None:
        with self._watched.lock():
            self._view.show_all()
            self._follow.active = True
            self._draw()

    def _resized(self, width: int | None) -> None:
        with self._watched.lock():
            self._view.set_width(width)
            self._draw()

    # ------------------------------------------------------------ contents

    def _offer(self) -> None:
        """Offer new keys and aggregates; select the first ones."""
        texts = sorted(self._texts[:_MOST_KEYS], key=_natural)
        if texts != self._texts_offered:
            self._texts_offered = texts
            for text in texts:
                self._names.setdefault(text, str(len(self._names)))
            # The widget treats labels as HTML: texts from data are escaped, and never used as values.
            self._keys.options = [(self._names[text], html.escape(text)) for text in texts]
            if not self._keys.value:
                self._keys.value = [self._names[text] for text in texts[:_FIRST_KEYS]]
        windows = self._watched.windows
        if windows is not None and windows.aggregates and self._aggregates_offered != windows.aggregates:
            self._aggregates_offered = list(windows.aggregates)
            self._aggregates.options = [(str(i), html.escape(name)) for i, name in enumerate(windows.aggregates)]
            self._aggregates.value = ["0"]
        self._aggregates.visible = windows is not None
        self._keys.visible = len(texts) > 1

    @property
    def _texts(self) -> list[str]:
        """The texts of all keys, of rows and of windows."""
        sources = [each for each in (self._watched.windows, self._watched.rows) if each is not None]
        return list(dict.fromkeys(text for each in sources for text in each.keys.texts))

    def _chosen(self, texts: list[str]) -> list[int]:
        """Return the numbers of the chosen keys, in order of choice; of several with one text, the first."""
        places = {self._names.get(text): place for place, text in reversed(list(enumerate(texts)))}
        return [places[name] for name in self._keys.value if name in places][: len(COLOURS)]

    def _build(self) -> None:
        """Create panels for new kinds of data."""
        watched = self._watched
        before = (self._rows, len(self._windows))
        if watched.axis is not None and self._marks is None:
            self._marks = MarksPanel(watched, self._view)
        if watched.rows is not None and watched.rows.axis is not None and self._rows is None:
            self._rows = RowsPanel(watched.rows, self._view)
            self._connect(self._rows.chart)
        if watched.windows is not None and watched.windows.axis is not None:
            for each in watched.windows.ids:
                if each not in self._windows:
                    self._windows[each] = WindowsPanel(watched, each, self._name_of(each), self._view)
                    self._connect(self._windows[each].chart)
        if (self._rows, len(self._windows)) != before:
            rows = [] if self._rows is None else [self._rows.chart]
            marks = [] if self._marks is None else [self._marks.chart]
            windows = [panel.chart for _, panel in sorted(self._windows.items())]
            self._panels.children = [*windows, *rows, *marks]

    def _connect(self, chart: figure) -> None:
        chart.on_event(RangesUpdate, self._zoomed)
        chart.on_change("inner_width", lambda _name, _old, new: self._resized(new))
        self._watermarks.append(Watermark(chart))

    def _name_of(self, window_id: int) -> str:
        """Return the plan's name of a window, if there is a plan."""
        for window in (self._watched.plan or {}).get("windows", ()):
            if window["window_id"] == window_id:
                return f"window {window_id}: {window['window'].removeprefix('window.')}"
        return f"{_PLAIN_TITLE} {window_id}"

    # ------------------------------------------------------------ drawing

    def _draw(self) -> None:
        """Draw all charts for the current range, keys and aggregates."""
        with self._watched.lock():
            watched = self._watched
            if watched.axis is None:
                return
            if self._rows is not None and watched.rows is not None:
                self._rows.draw(self._chosen(watched.rows.keys.texts))
            if watched.windows is not None and watched.windows.axis is not None:
                keys = self._chosen(watched.windows.keys.texts)
                known = watched.windows.aggregates
                chosen = [known[int(i)] for i in self._aggregates.value if int(i) < len(known)]
                for panel in self._windows.values():
                    panel.draw(keys, chosen)
            for line in self._watermarks:
                line.draw(watched.watermark)
            if self._marks is not None:
                self._marks.draw()

    def _draw_plan(self) -> None:
        """Draw the plan, once it is known."""
        if self._watched.plan is not None and self._plan is None:
            self._plan = self._watched.plan
            self._below.children = [picture_of(self._plan)]
            for each, panel in self._windows.items():
                panel.chart.title.text = self._name_of(each)


def _natural(text: str) -> list[Any]:
    """Return a sort key for natural order of texts with numbers.

    >>> sorted(["plug 10", "plug 9", "2"], key=_natural)
    ['2', 'plug 9', 'plug 10']
    """
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]
