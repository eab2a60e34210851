"""Draws every kind of window over the same rows, from the answers of real queries.

    python tools/draw_windows.py

A window is a bar from its start to its end, with the sum of its rows in it. The pictures are those of docs/windows.md
and of the README.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from svg import INKS, Drawing

from muntin import Query, agg, policies, rows, window

EPOCH = datetime.datetime(2024, 1, 20)  # noqa: DTZ001  # in the time zone of the calendar
MINUTES = (1, 2, 4, 5, 9, 10, 12, 17, 18, 19, 23)
VALUES = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5)
ROWS: Mapping[str, Sequence[Any]] = {
    "t": MINUTES,
    "v": VALUES,
    "distance": (0, 2, 5, 7, 12, 14, 17, 21, 24, 28, 33),
    "gap": (2, 5, 1, 1, 1, 6, 1, 2, 1, 1, 2),
    "marker": [minute in (4, 10, 18) for minute in MINUTES],
}
END = 27
STEP, LEFT, TOP, LANE = 24, 12, 46, 22

KINDS = {
    "tumbling": "window.tumbling(6)",
    "sliding": "window.sliding(9, every=3)",
    "session": "window.session(3)",
    "session_gaps": 'window.session(gap_column="gap")',
    "cumulative": "window.cumulative(12, every=4)",
    "calendar": 'window.calendar("1 month", zone="Europe/Berlin")',
    "trailing": "window.trailing(6)",
    "trailing_left": 'window.trailing(6, closed="left")',
    "trailing_delay": "window.trailing(6, delay=3)",
    "trailing_hop": "window.trailing(6, hop=4)",
    "lifetime": "window.lifetime()",
    "leading": "window.leading(6)",
    "frame": "window.frame(3, 3)",
    "tumbling_rows": "window.tumbling(rows(3))",
    "sliding_rows": "window.sliding(rows(4), every=rows(2))",
    "trailing_rows": "window.trailing(rows(3))",
    "rows_every": "window.sliding(rows(3), every=6)",
    "time_every": "window.sliding(6, every=rows(3))",
    "delta": 'window.delta("distance", 10, every=5)',
    "punctuated": 'window.punctuated("marker")',
    "policy": 'window.policy(policies.sum_at_most("v", 12))',
}
"""Every kind that is drawn, as it is written."""


def answers(expression: str) -> list[tuple[float, float, Any]]:
    """Return the windows of one kind over the rows: start, end, sum; in the order of their starts."""
    names = {"window": window, "rows": rows, "policies": policies}
    asked = Query(eval(expression, names), {"sum": agg.sum("v")}, time="t")
    table = pa.table(ROWS)
    if "calendar" in expression:  # a unit of the picture is a day then
        days = [EPOCH + datetime.timedelta(days=minute) for minute in MINUTES]
        table = table.set_column(0, "t", pa.array(days, pa.timestamp("s", "Europe/Berlin")))
    found = [(row["window"], row["sum"]) for row in asked.run(table).to_pylist()]
    spans = [
        (_number(each["start"]), _number(each["end"]), total) for each, total in found if each["start"] is not None
    ]
    frames = ("trailing", "lifetime", "leading", "frame")
    return spans if any(each in expression for each in frames) else sorted(spans)


def _number(time: Any) -> float:
    if not isinstance(time, datetime.datetime):
        return float(time)
    return (time.replace(tzinfo=None) - EPOCH) / datetime.timedelta(days=1)


def _x(time: float) -> float:
    return LEFT + STEP * min(max(time, -0.5), END + 0.5)


def axis(drawing: Drawing, bottom: float, late: int | None = None) -> None:
    """Draw the rows, each with its value above it and its time below it."""
    drawing.line([(_x(-0.5), TOP), (_x(END + 0.5), TOP)], "axis")
    for minute, value in zip(MINUTES, VALUES, strict=True):
        drawing.line([(_x(minute), TOP + 4), (_x(minute), bottom)], "grid")
        drawing.dot(_x(minute), TOP, "late" if minute == late else "dot")
        drawing.text(_x(minute), TOP - 10, str(value), "middle title")
        drawing.text(_x(minute), TOP + 18, str(minute), "middle faint")


def lanes(spans: Sequence[tuple[float, float, Any]]) -> list[int]:
    """Return for each window the first lane where it overlaps none that came before."""
    ends: list[float] = []
    chosen = []
    for start, end, _ in spans:
        lane = next((i for i, last in enumerate(ends) if last <= _x(start) + 0.01), len(ends))
        ends[lane : lane + 1] = [max(_x(end), _x(start) + 16)]
        chosen.append(lane)
    return chosen


def bars(drawing: Drawing, top: float, spans: Sequence[tuple[float, float, Any]], ink: str) -> float:
    """Draw windows as bars; return where they end."""
    chosen = lanes(spans)
    for lane, (start, end, total) in zip(chosen, spans, strict=True):
        left, right, y = _x(start), max(_x(end), _x(start) + 14), top + LANE * lane
        drawing.box(left, y, right - left - 1, LANE - 5, ink, f"{start:g} to {end:g}: {total}")
        drawing.text((left + right) / 2, y + 13, "-" if total is None else str(total), "middle")
    return top + LANE * (max(chosen, default=0) + 1)


def panels(title: str, kinds: Mapping[str, Sequence[tuple[float, float, Any]]]) -> Drawing:
    """Return a picture of one or several kinds of windows over the rows."""
    drawing, above = Drawing(title), Drawing(title)
    top = TOP + 34.0
    for ink, (label, spans) in zip(INKS, kinds.items(), strict=False):
        above.text(LEFT, top + 6, label, "code title")
        top = bars(above, top + 14, spans, ink) + 18
    axis(drawing, top - 18)
    drawing.shapes += above.shapes
    drawing.reach(max(above.width, _x(END + 0.5)), top - 18)
    return drawing


OVERVIEW = {
    'window.sliding("9 minutes", every="3 minutes")': KINDS["sliding"],
    'window.session("3 minutes")': KINDS["session"],
    "window.trailing(rows(3))": KINDS["trailing_rows"],
}
"""What the README shows: three kinds over one stream, from one pass."""


def main() -> None:
    """Draw all."""
    for name, expression in KINDS.items():
        title = f"The windows of {expression} over eleven rows"
        panels(title, {expression: answers(expression)}).write(f"window_{name}")
    title = "Sliding windows, sessions and the last three rows over one stream of eleven rows"
    panels(title, {label: answers(expression) for label, expression in OVERVIEW.items()}).write("windows")


if __name__ == "__main__":
    main()
