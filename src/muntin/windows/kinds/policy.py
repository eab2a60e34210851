"""Windows whose start a slide policy chooses after each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from muntin import aggregations as agg
from muntin.aggregators import MonoidTree
from muntin.errors import InvalidArgumentError
from muntin.policies import Policy
from muntin.types import Array, ColumnType, logical_array
from muntin.windows.base import Context, Measure, Window
from muntin.windows.buffered import BufferedWindows, Late, Moment, Terms, Windows, begins_of, less, zeros
from muntin.windows.found import Found, SortedRows, between_rows, python_values
from muntin.windows.held_rows import HeldRows


@dataclass(frozen=True, repr=False)
class Programmed(Window):
    """One window for each row: what the policy keeps of the previous window plus this row. Created by `policy`."""

    context: ClassVar[Context] = Context.FORWARD_AWARE
    measure: ClassVar[Measure] = Measure.POLICY
    each_row: ClassVar[bool] = True

    policy: Policy

    def __post_init__(self) -> None:
        """Reject what is not a policy."""
        if not isinstance(self.policy, Policy):
            raise InvalidArgumentError(
                f"window.policy: {self.policy!r} is no policy; make one with policies.define, "
                f"or take one of muntin.policies"
            )

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns that the policy's aggregations read."""
        read = (column for each in self.policy.aggregations.values() for column in each.reads)
        return tuple(dict.fromkeys(read))

    def resolve(self, time: ColumnType) -> Self:
        """Return it unchanged; reject it if the spans of the policy do not fit the unit of the time column. O(1)."""
        self.policy.rule(time)
        return self

    @property
    def durations(self) -> tuple[Any, ...]:
        """The durations as they were written."""
        return tuple(self.policy.spans.values())

    @property
    def fingerprint(self) -> str:
        """Its identity in snapshots: its expression, and the functions of the policy."""
        return f"{self!r} ({self.policy.fingerprint})"

    def __hash__(self) -> int:
        """Hash by the policy's functions; its aggregations are in a mapping, which has no hash."""
        return hash(tuple(each.function for each in self.policy.conditions))

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"window.policy({self.policy!r})"

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return the window of each row for which the policy leaves one. O(log n) policy calls per row."""
        first, last = [], []
        values = python_values(rows.columns, self.columns, len(rows.times))
        logical = logical_array(rows.times, None, rows.time_type).to_numpy(zero_copy_only=False)
        judged = np.zeros(len(rows.ends), np.int64) if rows.judged is None else rows.judged
        for begin, end, known in zip(rows.begins, rows.ends, judged, strict=True):
            tree = MonoidTree({"rows": agg.count()}, policy=self.policy)
            for row in range(begin, end):
                insert = tree.insert_unasked if row < begin + known else tree.insert
                insert(logical[row], values[row] if len(self.columns) != 1 else values[row][0])
                if len(tree) and row >= begin + known:
                    first.append(row + 1 - len(tree))
                    last.append(row + 1)
        return between_rows(rows, np.array(first, np.int64), np.array(last, np.int64), numbered=False)

    # ------------------------------------------------------------ streams

    def buffered(self, terms: Terms) -> BufferedWindows:
        """Return what answers it from kept rows."""
        return BufferedPolicy(self, terms)


def policy(policy: Policy) -> Programmed:
    """Return one window for each row; a slide policy decides how far back it reaches.

    >>> from muntin import policies, window
    >>> window.policy(policies.sum_at_most("v", 10))
    window.policy(<policy sum_at_most>)
    """
    return Programmed(policy)


class BufferedPolicy(BufferedWindows):
    """Windows of a policy. It resumes from what it kept at the last final row, and never looks further back.

    Only for streams that began with the buffer: those of earlier snapshots, and of `strategy="tuples"`. Others keep
    rows in order, where no row is judged twice. The rows of a key are the window of the last final row, which the
    policy has judged, and all rows after it.
    """

    forgets = True
    definition: Programmed

    def __init__(self, definition: Programmed, terms: Terms) -> None:
        super().__init__(definition, terms)
        self._judged = zeros(0)  # how many rows of each key the policy had judged when windows were last examined

    def late(self, key: int, held: HeldRows, new: HeldRows, watermark: int) -> Late:
        rows = held

        def takes(row: int) -> bool:
            nonlocal rows
            at = int(np.searchsorted(rows.times, new.times[row], "right"))
            judged = int(np.searchsorted(rows.times, less(watermark, self.lateness), "right"))
            if at == 0 and judged:
                return False
            after = rows.with_rows(new.take(slice(row, row + 1)))
            found = self.definition.find(replace(self.sorted_rows(after), judged=np.array([judged + 1])))
            if not ((found.first <= at) & (at < found.last)).any():
                return False
            rows = after
            return True

        return takes

    def windows(self, rows: HeldRows, active: Array, moment: Moment) -> Windows:
        old = (rows.numbers < moment.fresh) | (rows.times < moment.before)
        self._judged = _counts(rows, old & self.final(rows.times, moment.before))
        found = self.definition.find(replace(self.sorted_rows(rows), judged=self._judged))
        row = found.last - 1
        final = np.zeros(len(row), np.bool_)
        return Windows(found, rows.keys[row], found.end, final, (found.end, rows.numbers[row], zeros(len(row))))

    def needed(self, rows: HeldRows, windows: Windows, final: Array, watermark: int) -> Array:
        """Keep what the policy kept at the last row that is final now; if none is, what it kept before."""
        count = _counts(rows, self.final(rows.times, watermark))
        begins = begins_of(rows)
        last = np.maximum(begins + count - 1, 0)
        found = windows.found
        left = np.arange(1, len(rows) + 1)  # nothing, unless there is a window
        left[found.last - 1] = found.first
        return np.where(count > self._judged, left[last] if len(rows) else last, begins)


def _counts(rows: HeldRows, which: Array) -> Array:
    """Return the number of each key's rows among these."""
    total = np.concatenate(([0], np.cumsum(which)))
    counts: Array = total[rows.ends] - total[begins_of(rows)]
    return counts
