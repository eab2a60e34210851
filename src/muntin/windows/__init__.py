"""Windows: where they begin and end. They know no values.

    from muntin import rows, window

    window.tumbling("1 minute")        window.sliding("24 hours", every="1 minute")     window.session("5 minutes")
    window.trailing(rows(1000))        window.cumulative("1 day", every="1 hour")       window.punctuated("is_marker")
    window.leading("1 hour")           window.frame("30 minutes", "30 minutes")         window.calendar("1 month")
    window.lifetime()

Each is a small immutable description. It says how much of the rows must be known to tell its edges (`context`), what
the edges are measured in (`measure`), and whether they are known ahead (`edges_known`). Your own are subclasses of
`ContextFree` or `ContextAware`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.errors import InvalidArgumentError
from muntin.suggestions import WINDOWS, no_attribute
from muntin.windows.base import Context, Measure, Window
from muntin.windows.edges import Edges
from muntin.windows.kinds.calendar import calendar
from muntin.windows.kinds.context_aware import ContextAware
from muntin.windows.kinds.context_free import ContextFree
from muntin.windows.kinds.cumulative import cumulative
from muntin.windows.kinds.delta import delta
from muntin.windows.kinds.frame import frame
from muntin.windows.kinds.leading import leading
from muntin.windows.kinds.lifetime import lifetime
from muntin.windows.kinds.policy import policy
from muntin.windows.kinds.punctuated import punctuated
from muntin.windows.kinds.rows_every import RowsEvery
from muntin.windows.kinds.session import session
from muntin.windows.kinds.sliding import Sliding
from muntin.windows.kinds.sliding_rows import SlidingRows
from muntin.windows.kinds.time_every import TimeEvery
from muntin.windows.kinds.trailing import trailing
from muntin.windows.lengths import Rows, rows
from muntin.windows.words import word

__all__ = [
    "Context",
    "ContextAware",
    "ContextFree",
    "Edges",
    "Measure",
    "Window",
    "calendar",
    "cumulative",
    "delta",
    "frame",
    "leading",
    "lifetime",
    "policy",
    "punctuated",
    "rows",
    "session",
    "sliding",
    "trailing",
    "tumbling",
]


@word(lengths=("offset",))
def tumbling(range: Any, *, offset: Any = 0) -> Sliding | SlidingRows:
    """Return windows without overlap: [0, range), [range, 2 * range), ... from the epoch, or from the first row.

    `offset` shifts all edges of windows by time. Each row is in one window.

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


@word(lengths=("every", "offset"), required={"every": "1 minute"})
def sliding(range: Any, *, every: Any, offset: Any = 0) -> Sliding | SlidingRows | RowsEvery | TimeEvery:
    """Return overlapping windows of length `range`, one every `every`: by time, by rows, or one by the other.

    Each row is in range / every windows, rounded up or down. `sliding(rows(10), every="5 seconds")` holds, at every
    multiple of five seconds, the last ten rows before it; `sliding("1 hour", every=rows(10))`, after every tenth row of
    a key, those of its last hour, (t - 1 hour, t].

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
        _no_offset(offset, "window.sliding")
        return TimeEvery(range, every)
    return Sliding(range, every, offset)


def _no_offset(offset: Any, name: str) -> None:
    if offset != 0:
        raise InvalidArgumentError(f"{name}: offset is {offset!r}; windows by rows begin with the first, and have none")


if not TYPE_CHECKING:  # type checkers should reject other names too

    def __getattr__(name: str) -> Any:
        """Suggest the right name."""
        raise no_attribute("window", name, __all__, WINDOWS)
