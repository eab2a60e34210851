"""Frames: `OVER (PARTITION BY ... ORDER BY ... RANGE or ROWS BETWEEN ... AND ...)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from muntin import windows
from muntin.durations import in_any_unit, is_unitless
from muntin.errors import MuntinError, SqlError
from muntin.expressions.places import Text
from muntin.statements.columns import Columns
from muntin.statements.intervals import duration_of, less
from muntin.suggestions import hint

_CURRENT = "CURRENT ROW"
_BOUNDED = "a frame has two bounds, such as RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"


@dataclass(frozen=True)
class FrameWindow:
    """The frames of one OVER."""

    window: windows.Window
    key: tuple[str, ...]
    time: str | None
    name: str | None
    """What the clause WINDOW calls it."""


@dataclass(frozen=True)
class Frames:
    """Reads frames. `named` are those of the clause WINDOW."""

    text: Text
    columns: Columns
    named: Mapping[str, Any]

    def frame(self, over: Any) -> FrameWindow:
        """Return the frames that an OVER asks for."""
        alias = over.args.get("alias")
        if alias is None:
            return self._defined(over, over, None)
        if over.args.get("spec") or over.args.get("order") or over.args.get("partition_by"):
            raise self.text.refused(alias, "a named window cannot be added to; write all of it in one place")
        if alias.name not in self.named:
            raise self.text.refused(alias, f"there is no window {alias.name}{hint(alias.name, self.named)}")
        definition = self.named[alias.name]
        if definition.args.get("alias") is not None:
            raise self.text.refused(definition, "a named window cannot be added to; write all of it in one place")
        return self._defined(definition, over, str(alias.name))

    def _defined(self, node: Any, over: Any, name: str | None) -> FrameWindow:
        key = self._key(node.args.get("partition_by") or ())
        order = node.args.get("order")
        if order is None:
            raise self.text.refused(over, "OVER needs ORDER BY and the time column: it tells which rows come before")
        if len(order.expressions) != 1:
            place = (order.expressions or [order])[-1]
            raise self.text.refused(place, "rows are in the order of one column, the time")
        by = order.expressions[0]
        if by.args.get("desc"):
            raise self.text.refused(by, "rows are in the order of their times; turn the frame around instead of DESC")
        spec = node.args.get("spec")  # without bounds SQL means all rows up to each, and its peers
        window = windows.lifetime() if spec is None else self._bounded(spec, over)
        return FrameWindow(window, key, self.columns.time(by.this), name)

    def _key(self, parts: Iterable[Any]) -> tuple[str, ...]:
        names: list[str] = []
        for each in parts:
            name = self.columns.name(each, "what PARTITION BY names")
            if name in names:
                raise self.text.refused(each, f"{name} is in PARTITION BY twice")
            names.append(name)
        return tuple(names)

    # ------------------------------------------------------------ bounds

    def _bounded(self, spec: Any, over: Any) -> windows.Window:
        kind = str(spec.args["kind"]).upper()
        exclude = str(spec.args["exclude"].name).upper() if spec.args.get("exclude") is not None else "NO OTHERS"
        if kind == "GROUPS":
            raise self.text.refused(over, "GROUPS: frames are by RANGE or by ROWS")
        if _is_unbounded(spec.args["start"]) and str(spec.args.get("start_side")).upper() == "PRECEDING":
            return self._of_all(kind, spec, exclude)
        start = self._bound(spec.args["start"], spec.args.get("start_side"), over)
        end = self._bound(spec.args.get("end") or _CURRENT, spec.args.get("end_side"), over)
        try:
            if exclude != "NO OTHERS":
                return self._without_peers(over, kind, start, end, exclude)
            return (self._by_rows if kind == "ROWS" else self._by_time)(over, start, end)
        except SqlError:
            raise
        except MuntinError as error:
            raise self.text.refused(over, str(error)) from error

    def _of_all(self, kind: str, spec: Any, exclude: str) -> windows.Window:
        """Return frames of all rows up to each row."""
        bound, end = spec.args["start"], spec.args.get("end") or _CURRENT
        if kind == "ROWS":
            raise self.text.refused(
                bound,
                "ROWS UNBOUNDED PRECEDING leaves out some rows of the row's own time, and which is for no one to say; "
                "RANGE UNBOUNDED PRECEDING holds all rows up to that time",
            )
        if end != _CURRENT or spec.args.get("end_side") is not None:
            raise self.text.refused(
                bound, "UNBOUNDED PRECEDING goes with AND CURRENT ROW: a frame of all rows ends with its own"
            )
        if exclude not in ("NO OTHERS", "GROUP"):
            raise self.text.refused(bound, f"UNBOUNDED PRECEDING goes with EXCLUDE GROUP, and not with {exclude}")
        return windows.lifetime(closed="left" if exclude == "GROUP" else "right")

    def _bound(self, bound: Any, side: str | None, over: Any) -> tuple[Any, int]:
        """Return a bound and on which side of its row it lies: -1 before, 1 after."""
        if _is_unbounded(bound):
            raise self.text.refused(bound, f"UNBOUNDED FOLLOWING: such a frame is never complete; {_BOUNDED}")
        if bound == _CURRENT and side is None:
            return bound, 0
        sides = {"PRECEDING": -1, "FOLLOWING": 1}
        if bound is None or bound == _CURRENT or str(side).upper() not in sides:
            raise self.text.refused(
                over if bound in (None, _CURRENT) else bound,
                f"a bound is CURRENT ROW, or PRECEDING or FOLLOWING; {_BOUNDED}",
            )
        return bound, sides[str(side).upper()]

    def _by_rows(self, over: Any, start: Any, end: Any) -> windows.Window:
        low, high = (self._row(*bound) for bound in (start, end))
        if low > high:
            raise self.text.refused(over, "the frame ends before it begins")
        length = windows.rows(high - low + 1)
        if high == 0:
            return windows.trailing(length)
        if low == 0:
            return windows.leading(length)
        if high < 0:
            return windows.trailing(length, delay=windows.rows(-high))
        if low > 0:
            return windows.leading(length, delay=windows.rows(low))
        return windows.frame(windows.rows(-low), windows.rows(high))

    def _row(self, bound: Any, side: int) -> int:
        if side == 0:
            return 0
        if not isinstance(bound, exp.Literal) or bound.is_string or not str(bound.this).isdecimal():
            raise self.text.refused(
                bound, f"a bound by ROWS is a number of rows, and {self.text.written(bound)!r} is none"
            )
        return side * int(bound.this)

    def _by_time(self, over: Any, start: Any, end: Any) -> windows.Window:
        (first, low), (last, high) = self._moments(start, end)
        if (low, high) == (0, 0):
            return windows.frame(0, 0)
        if low <= 0 <= high and low != high:
            if high == 0:
                return windows.trailing(first, closed="both")
            if low == 0:
                return windows.leading(last, closed="both")
            return windows.frame(first, last)
        if low >= high:
            raise self.text.refused(over, "the frame ends before it begins, or where it begins")
        if high < 0:
            return windows.trailing(less(first, last), delay=last, closed="both")
        return windows.leading(less(last, first), delay=first, closed="both")

    def _without_peers(self, over: Any, kind: str, start: Any, end: Any, exclude: str) -> windows.Window:
        """Return frames up to a row, or from it on, without the rows of its own time."""
        if kind == "RANGE" and exclude == "GROUP":
            (first, low), (last, high) = self._moments(start, end)
            if low < 0 == high:
                return windows.trailing(first, closed="left")
            if low == 0 < high:
                return windows.leading(last, closed="right")
        known = "EXCLUDE GROUP goes with a RANGE that ends or begins with CURRENT ROW"
        wrong = "this frame is not one" if exclude == "GROUP" else f"EXCLUDE {exclude} goes with none"
        raise self.text.refused(over, f"{known}, and {wrong}")

    def _moments(self, start: Any, end: Any) -> tuple[tuple[Any, int], tuple[Any, int]]:
        """Return both bounds, which must be in the same unit to be compared."""
        first, last = self._moment(*start), self._moment(*end)
        if start[1] and end[1] and is_unitless(first[0]) != is_unitless(last[0]):
            raise self.text.refused(end[0], "one bound is an interval and one a number; write both in the same way")
        return first, last

    def _moment(self, bound: Any, side: int) -> tuple[Any, int]:
        """Return the duration of a bound, and how far after the row it lies."""
        if side == 0:
            return 0, 0
        duration = duration_of(bound, self.text)
        span = in_any_unit(duration, "a bound")
        if span < 0:
            raise self.text.refused(bound, "a bound is not negative; PRECEDING and FOLLOWING say on which side it lies")
        return duration, side * span


def _is_unbounded(bound: Any) -> bool:
    return isinstance(bound, exp.Var)
