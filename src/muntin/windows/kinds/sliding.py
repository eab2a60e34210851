"""Sliding windows by time, including tumbling ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from muntin.windows.found import Found, SortedRows, filled, finding
from muntin.windows.kinds.periodic import PeriodicWindow
from muntin.windows.lengths import any_sign, positive, shown_offset, steps_fit
from muntin.windows.limits import may_be_many, opened, require_few, spanned
from muntin.windows.shapes import SLIDING


@dataclass(frozen=True, repr=False)
class Sliding(PeriodicWindow):
    """Windows [start, start + range), one every `every`, at its multiples since the epoch, plus `offset`.

    Created by `tumbling` and `sliding`.
    """

    branch: ClassVar[int] = SLIDING

    def __post_init__(self) -> None:
        """Reject meaningless durations."""
        one = self.every is self.range
        object.__setattr__(self, "range", positive(self.range, f"window.{'tumbling' if one else 'sliding'}: range"))
        object.__setattr__(self, "every", positive(self.every, "window.sliding: every"))
        name = "window.tumbling" if self.range == self.every else "window.sliding"
        object.__setattr__(self, "offset", any_sign(self.offset, f"{name}: offset"))
        steps_fit(self.range, self.every, name)

    @property
    def period(self) -> int:
        """The time after which the pattern of windows repeats.

        >>> import pyarrow as pa
        >>> from muntin import window
        >>> from muntin.types import column_type
        >>> window.sliding("1 hour", every="1 minute", offset="-15 seconds").resolve(column_type(pa.timestamp("s")))
        window.sliding(3600, every=60, offset=45)
        """
        return cast("int", self.every)

    def start_of(self, end: Any) -> Any:
        """Return the starts of the windows with these ends. O(1) each."""
        return end - self.range

    def next_edge(self, t: int) -> int:
        """Return the first time after t at which a window begins or ends. Resolved windows only. O(1).

        >>> from muntin import window
        >>> [window.sliding(10, every=4).next_edge(t) for t in (0, 2, 4, 5)]
        [2, 4, 6, 6]
        """
        begins = t + self.every - (t - self.offset) % self.every
        return cast("int", min(begins, self.next_end(t)))

    def with_rows(self, rows: SortedRows) -> Found:
        """Return the windows that hold a row. O(n + windows)."""
        shape = (self.range, self.every, self.offset)
        most = len(rows.times) * (self.range // self.every)
        if may_be_many(most) and may_be_many(spanned(rows.times, rows.begins, rows.ends, self.range, self.every)):
            require_few(self, opened(rows.times, rows.is_first, *shape), rows.times, rows.arrival)
        first, last, start = filled(finding().hopping_windows, (rows.times, rows.ends, *shape), 3)
        return Found(first, last, start, start + self.range)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        if self.range == self.every:
            return f"window.tumbling({self.range!r}{shown_offset(self.offset)})"
        return f"window.sliding({self.range!r}, every={self.every!r}{shown_offset(self.offset)})"
