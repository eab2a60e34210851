"""Windows whose start a slide policy chooses after each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from muntin import aggregations as agg
from muntin.aggregators import MonoidTree
from muntin.errors import InvalidArgumentError
from muntin.policies import Policy
from muntin.types import ColumnType, logical_array
from muntin.windows.base import Context, Measure, Window
from muntin.windows.found import Found, SortedRows, between_rows, python_values


@dataclass(frozen=True, repr=False)
class Programmed(Window):
    """One window for each row: what the policy keeps of the previous window plus this row. Created by `policy`."""

    context: ClassVar[Context] = Context.FORWARD_AWARE
    measure: ClassVar[Measure] = Measure.POLICY
    each_row: ClassVar[bool] = True
    start_moves: ClassVar[bool] = True

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
        for begin, end in zip(rows.begins, rows.ends, strict=True):
            tree = MonoidTree({"rows": agg.count()}, policy=self.policy)
            for row in range(begin, end):
                tree.insert(logical[row], values[row] if len(self.columns) != 1 else values[row][0])
                if len(tree):
                    first.append(row + 1 - len(tree))
                    last.append(row + 1)
        return between_rows(rows, np.array(first, np.int64), np.array(last, np.int64), numbered=False)


def policy(policy: Policy) -> Programmed:
    """Return one window for each row; a slide policy decides how far back it reaches.

    >>> from muntin import policies, window
    >>> window.policy(policies.sum_at_most("v", 10))
    window.policy(<policy sum_at_most>)
    """
    return Programmed(policy)
