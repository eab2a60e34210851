"""Windows: where they begin and end. They know no values.

    from muntin import rows, window

    window.tumbling("1 minute")        window.sliding("24 hours", every="1 minute")     window.session("5 minutes")
    window.trailing(rows(1000))        window.cumulative("1 day", every="1 hour")       window.punctuated("is_marker")

Each is a small immutable description. It says how much of the rows must be known to tell its edges (`context`), what
the edges are measured in (`measure`), and whether they are known ahead (`edges_known`). Your own are subclasses of
`ContextFree` or `ContextAware`.
"""

from __future__ import annotations

from typing import Any

from muntin.errors import InvalidArgumentError
from muntin.policies import Policy
from muntin.windows.advancing import Delta
from muntin.windows.base import Context, Measure, Rows, Window, rows
from muntin.windows.counts import SlidingRows, TrailingRows
from muntin.windows.mixed import RowsEvery
from muntin.windows.own import ContextAware, ContextFree, Edges
from muntin.windows.programmed import Programmed
from muntin.windows.punctuation import Punctuated
from muntin.windows.sessions import Session
from muntin.windows.times import Cumulative, Sliding, Trailing

__all__ = [
    "Context",
    "ContextAware",
    "ContextFree",
    "Edges",
    "Measure",
    "Window",
    "cumulative",
    "delta",
    "policy",
    "punctuated",
    "rows",
    "session",
    "sliding",
    "trailing",
    "tumbling",
]

# Every window is of one of these; what finds and keeps windows has an answer for each.
KINDS = (
    ContextAware,
    ContextFree,
    Delta,
    Programmed,
    Punctuated,
    RowsEvery,
    Session,
    SlidingRows,
    Trailing,
    TrailingRows,
)


def tumbling(range: Any, *, offset: Any = 0) -> Sliding | SlidingRows:
    """Return windows one after the other: [0, range), [range, 2 * range), ... from the epoch, or from the first row.

    `offset` moves all edges of windows by time. Each row is in one window.

    >>> from muntin import rows, window
    >>> window.tumbling("1 hour", offset="15 minutes")
    window.tumbling('1 hour', offset='15 minutes')
    >>> window.tumbling(rows(100)).measure
    <Measure.ROWS: 'rows'>
    """
    if isinstance(range, Rows):
        _no_offset(offset, "window.tumbling")
        return SlidingRows(range, range)
    return Sliding(range, range, offset)


def sliding(range: Any, *, every: Any, offset: Any = 0) -> Sliding | SlidingRows | RowsEvery:
    """Return windows of a length that overlap, one every `every`: by time, by rows, or rows by time.

    Each row is in range / every windows, rounded up or down. `sliding(rows(10), every="5 seconds")` holds at every
    multiple of five seconds the last ten rows before it.

    >>> from muntin import rows, window
    >>> window.sliding("24 hours", every="1 minute").edges_known
    True
    >>> window.sliding(rows(1000), every=rows(10)).edges_known
    True
    >>> window.sliding(rows(10), every="5 seconds").context
    <Context.FORWARD_AWARE: 'forward context aware'>
    """
    if isinstance(range, Rows) and isinstance(every, Rows):
        _no_offset(offset, "window.sliding")
        return SlidingRows(range, every)
    if isinstance(range, Rows):
        return RowsEvery(range, every, offset)
    if isinstance(every, Rows):
        raise InvalidArgumentError(
            f"window.sliding: every is {every!r} and the range is {range!r}, a duration; give every as a duration too, "
            f"or use window.trailing({range!r}) for a result at each row"
        )
    return Sliding(range, every, offset)


def trailing(range: Any) -> Trailing | TrailingRows:
    """Return one window for each row that ends with it: (t - range, t], or the last so many rows.

    Rows of equal time share the window by time, and each has its own result.

    >>> from muntin import rows, window
    >>> window.trailing("1 hour"), window.trailing(rows(1000))
    (window.trailing('1 hour'), window.trailing(rows(1000)))
    """
    return TrailingRows(range) if isinstance(range, Rows) else Trailing(range)


def session(gap: Any) -> Session:
    """Return windows of rows that follow each other by at most the gap: [first row, last row + gap).

    >>> from muntin import window
    >>> window.session("5 minutes").context
    <Context.FORWARD_FREE: 'forward context free'>
    """
    return Session(gap)


def cumulative(range: Any, *, every: Any, offset: Any = 0) -> Cumulative:
    """Return windows that grow: of "1 day" every "1 hour", [0 h, 1 h), [0 h, 2 h), ... [0 h, 24 h), [24 h, 25 h), ...

    >>> from muntin import window
    >>> window.cumulative("1 day", every="1 hour")
    window.cumulative('1 day', every='1 hour')
    """
    return Cumulative(range, every, offset)


def delta(column: str, range: float, *, every: float | None = None, offset: float = 0) -> Delta:
    """Return windows by the values of a column that advances: [k * every, k * every + range) for integers k.

    Without `every` they follow one another. Rows where the column is null or NaN are in none.

    >>> from muntin import window
    >>> window.delta("odometer", 100.0, every=10.0)
    window.delta('odometer', 100.0, every=10.0)
    """
    return Delta(column, range, range if every is None else every, offset)


def punctuated(column: str) -> Punctuated:
    """Return windows that end with each row in which a boolean column is true. That row is the last of its window.

    >>> from muntin import window
    >>> window.punctuated("is_marker").measure
    <Measure.PUNCTUATION: 'punctuation'>
    """
    return Punctuated(column)


def policy(policy: Policy) -> Programmed:
    """Return one window for each row, of which a slide policy says how far back it goes.

    >>> from muntin import policies, window
    >>> window.policy(policies.sum_at_most("v", 10))
    window.policy(<policy sum_at_most>)
    """
    return Programmed(policy)


def _no_offset(offset: Any, name: str) -> None:
    if offset != 0:
        raise InvalidArgumentError(f"{name}: offset is {offset!r}; windows by rows begin with the first, and have none")
