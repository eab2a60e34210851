"""The plan of a query as a picture: rows, what is kept of them, the windows built from that, the answers."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from bokeh.models import Arrow, VeeHead
from bokeh.plotting import figure

from muntin.watching.view import FAINT, INK

_LETTERS = 25
"""Characters per line of a box."""
_LINE = 1.0
_GAP = 0.9
_WIDTH, _STEP = 1.0, 1.2
_FILLS = ("#eef4fb", "#fdf3e4", "#eef7f0", "#f5f0fa")


@dataclass(frozen=True)
class Box:
    """A box with a title and lines of text, in a column of the picture."""

    name: str
    column: int
    title: str
    lines: tuple[str, ...]

    @property
    def height(self) -> float:
        """The height in lines."""
        return (len(self.lines) + 2) * _LINE


def boxes_of(plan: dict[str, Any]) -> tuple[list[Box], list[tuple[str, str]]]:
    """Return the boxes of a plan (`QueryPlan.to_dict`), and the arrows between them.

    >>> from muntin import Query, agg, window
    >>> plan = Query(window.tumbling("1 hour"), {"n": agg.count()}, time="ts").explain().to_dict()
    >>> boxes, arrows = boxes_of(plan)
    >>> [box.title for box in boxes], arrows[0]
    (['rows', 'slices', 'window 0', 'answers'], ('rows', 'store 0'))
    """
    source = [
        f"time: {plan['time'] or 'the clock'}",
        f"key: {', '.join(plan['key']) or 'none'}",
        _first(plan["watermark"]),
    ]
    boxes = [Box("rows", 0, "rows", _wrapped(*source, _first(plan["lateness"])))]
    arrows = []
    for number, store in enumerate(plan["stores"]):
        merge = ", ".join(dict.fromkeys(each["aggregator"] for each in store["merge"]))
        held = None if store["slices"] is None else f"up to {store['slices']:,} {store['piece']}s a key"
        lines = [f"merged by {merge}" if merge else "", held or "", _now(store["now"])]
        boxes.append(Box(f"store {number}", 1, store["strategy"], _wrapped(*lines)))
        arrows.append(("rows", f"store {number}"))
        arrows += [(f"store {number}", f"window {each}") for each in store["window_ids"]]
    for window in plan["windows"]:
        name = f"window {window['window_id']}"
        text = window["window"].removeprefix("window.")
        boxes.append(Box(name, 2, name, _wrapped(text, f"rows kept: {window['kept']}")))
        arrows.append((name, "answers"))
    aggregates = [f"{name} = {each}" for name, each in plan["aggregates"].items()]
    boxes.append(Box("answers", 3, "answers", _wrapped(*aggregates)))
    return boxes, arrows


def _first(text: str) -> str:
    """Return the first clause of a sentence.

    >>> _first("the greatest time seen less '10 seconds', or what advance() says; a window is emitted when it ends")
    "the greatest time seen less '10 seconds'"
    """
    return text.partition(";")[0].partition(",")[0]


def _now(now: dict[str, Any] | None) -> str:
    return "" if not now else "now: " + ", ".join(f"{count:,} {name}" for name, count in now.items() if count)


def _wrapped(*texts: str) -> tuple[str, ...]:
    return tuple(line for text in texts if text for line in textwrap.wrap(text, _LETTERS, subsequent_indent="  "))


def picture_of(plan: dict[str, Any]) -> figure:
    """Return the picture."""
    boxes, arrows = boxes_of(plan)
    columns = [[box for box in boxes if box.column == column] for column in range(4)]
    tallest = max(sum(box.height + _GAP for box in each) for each in columns)
    chart = figure(
        title="The plan",
        height=int(60 + 15 * tallest),
        x_range=(-0.06, 3 * _STEP + _WIDTH + 0.06),
        y_range=(0, tallest),
        tools="",
        toolbar_location=None,
        sizing_mode="stretch_width",
    )
    chart.name = "plan"
    chart.axis.visible = chart.grid.visible = False
    chart.outline_line_color = None
    chart.title.text_font_size = "13px"
    middles: dict[str, tuple[float, float]] = {}
    for column, group in enumerate(columns):
        top = (tallest + sum(box.height + _GAP for box in group) - _GAP) / 2
        for box in group:
            _draw_box(chart, box, column * _STEP, top)
            middles[box.name] = (column * _STEP, top - box.height / 2)
            top -= box.height + _GAP
    for one, other in arrows:
        (x0, y0), (x1, y1) = middles[one], middles[other]
        head = VeeHead(size=8, fill_color=FAINT, line_color=FAINT)
        chart.add_layout(Arrow(end=head, x_start=x0 + _WIDTH, y_start=y0, x_end=x1, y_end=y1, line_color=FAINT))
    return chart


def _draw_box(chart: figure, box: Box, left: float, top: float) -> None:
    chart.quad(
        left, left + _WIDTH, top, top - box.height, fill_color=_FILLS[box.column], line_color="#c3ccd5", line_width=1
    )
    x, y = [left + 0.03] * len(box.lines), [top - (i + 2) * _LINE for i in range(len(box.lines))]
    chart.text(
        [left + 0.03], [top - 0.9 * _LINE], text=[box.title], text_font_size="12px", text_font_style="bold",
        text_baseline="middle", text_color=INK,
    )  # fmt: skip
    chart.text(x, y, text=list(box.lines), text_font_size="11px", text_baseline="middle", text_color=INK)
