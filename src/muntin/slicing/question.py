"""What a query asks: windows and aggregates over rows with a time and perhaps a key. It says what, not how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from muntin import _html
from muntin.aggregations.aggregation import Aggregation
from muntin.errors import InvalidArgumentError
from muntin.windows import KINDS
from muntin.windows.base import Window, any_sign, positive, sized


@dataclass(frozen=True)
class ProcessingTime:
    """A duration by the clock, where one in event time could stand too.

    >>> from muntin import ProcessingTime
    >>> ProcessingTime("10 seconds")
    ProcessingTime('10 seconds')
    """

    duration: Any

    def __post_init__(self) -> None:
        """Refuse what is no duration."""
        positive(self.duration, "ProcessingTime")

    def __repr__(self) -> str:
        """Show it as it is written."""
        return f"ProcessingTime({self.duration!r})"


RESERVED = ("window", "window_id", "revision", "retracted")


@dataclass(frozen=True)
class Question:
    """Windows over rows, and what to compute of each.

    `aggregates` are named; `key` is a column, or several, of which each combination of values has windows of its own;
    `time` is the column of event times. At the end every window that holds a row is an answer, but for windows by rows
    that never filled (`partial=True` gives those too); `emit_empty=True` adds windows by time that hold none.

    Of streams: the watermark is the greatest time seen less `watermark`, and a window is emitted when it reaches its
    end; rows that come later still change it for the `allowed_lateness`. With `time=None` each row gets the clock's
    time as it is pushed. When no row has come for the `idle_timeout` by the clock, the watermark goes on with the
    clock. With `emit_early` windows are emitted before they are due, too, whenever event time has moved on by that, or
    the clock, if it is a `ProcessingTime`. `ordered=True` promises that rows come in the order of their times: less is
    kept then, and a row out of order is refused.
    """

    windows: Sequence[Window]
    aggregates: Mapping[str, Aggregation]
    key: Sequence[str] = ()
    time: str | None = "ts"
    watermark: Any = 0
    allowed_lateness: Any = 0
    partial: bool = False
    emit_empty: bool = False
    idle_timeout: Any = None
    emit_early: Any = None
    ordered: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no query."""
        windows = [self.windows] if isinstance(self.windows, Window) else list(self.windows)
        object.__setattr__(self, "windows", tuple(windows))
        object.__setattr__(self, "key", (self.key,) if isinstance(self.key, str) else tuple(self.key))
        object.__setattr__(self, "aggregates", dict(self.aggregates))
        if not windows:
            raise InvalidArgumentError("a query needs at least one window, such as window.tumbling('1 minute')")
        for each in windows:
            if not isinstance(each, Window):
                raise InvalidArgumentError(f"a window is made by window.tumbling and its like; got {each!r}")
            if not isinstance(each, KINDS):
                raise InvalidArgumentError(
                    f"{type(each).__name__} is a window of no known kind; derive it from window.ContextFree, if its "
                    "edges depend on no row, or from window.ContextAware"
                )
        if not self.aggregates:
            raise InvalidArgumentError("a query needs at least one aggregate, such as {'n': agg.count()}")
        for name, aggregation in self.aggregates.items():
            if not isinstance(aggregation, Aggregation):
                raise InvalidArgumentError(f"the aggregate {name!r} is {aggregation!r}; give one like agg.max('v')")
        for name in (*self.key, *self.aggregates):
            if name in RESERVED:
                raise InvalidArgumentError(f"{name!r} is a column of the answer already; give it another name")
        twice = set(self.key) & set(self.aggregates)
        if twice:
            raise InvalidArgumentError(f"{min(twice)!r} is a key and an aggregate; give one of them another name")
        self._require_durations()

    def _require_durations(self) -> None:
        for name in ("watermark", "allowed_lateness"):
            if sized(any_sign(getattr(self, name), name), name) < 0:
                raise InvalidArgumentError(f"{name} is {getattr(self, name)!r}; it must not be negative")
        if self.time is not None and (not isinstance(self.time, str) or not self.time):
            raise InvalidArgumentError(
                f"time is {self.time!r}; give the name of a column, or None for the clock's time"
            )
        if self.idle_timeout is not None:
            positive(self.idle_timeout, "idle_timeout")
        if self.emit_early is not None and not isinstance(self.emit_early, ProcessingTime):
            positive(self.emit_early, "emit_early")

    def __repr__(self) -> str:
        """Show it as it is written, without what was left out."""
        windows = self.windows[0] if len(self.windows) == 1 else list(self.windows)
        given = ((each.name, getattr(self, each.name), each.default) for each in fields(self)[2:])
        options = "".join(f", {name}={_shown(value)}" for name, value, default in given if value != default)
        return f"{type(self).__name__}({windows!r}, {self.aggregates!r}{options})"

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        rows: list[tuple[str, object]] = [(f"window {i}", each) for i, each in enumerate(self.windows)]
        rows += list(self.aggregates.items())
        rows += [(each.name, _shown(getattr(self, each.name))) for each in fields(self)[2:5]]
        return _html.table(type(self).__name__, rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the aggregates and the windows read."""
        used = [column for each in self.aggregates.values() for column in each.columns]
        return tuple(dict.fromkeys([*used, *(column for each in self.windows for column in each.columns)]))


def _shown(value: Any) -> str:
    """Show a value of an option; several columns as a list."""
    if isinstance(value, tuple):
        return repr(value[0]) if len(value) == 1 else repr(list(value))
    return repr(value)
