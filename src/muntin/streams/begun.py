"""Windows that had begun before an aggregate came: there it is null, since the rows before it are gone.

latest row before the aggregate came    14, so that windows from 15 on are whole
window [ 0, 20)    20 rows, 7 of them before    null: 13 would be a part of the truth
window [15, 35)    20 rows                      20
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.durations import BEFORE_TIME
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.base import Window


class Begun:
    """From which time on aggregates are whole, by window: of those that came later than their stream began."""

    def __init__(self, since: Mapping[str, Mapping[int, int]] | None = None) -> None:
        self.since = {} if since is None else {name: dict(each) for name, each in since.items()}

    def __bool__(self) -> bool:
        """Return whether there is any such aggregate."""
        return bool(self.since)

    def note(self, names: frozenset[str], window_ids: list[int], since: int) -> None:
        """Note that aggregates have lacked rows of windows before a time; windows may have been incomplete before."""
        if since == BEFORE_TIME:
            return
        for name in names:
            mine = self.since.setdefault(name, {})
            mine |= {i: max(since, mine.get(i, BEFORE_TIME)) for i in window_ids}

    def whole_from(self, names: frozenset[str], since: int, complete_from: Mapping[int, int | None]) -> Begun:
        """Return what is known once aggregates have taken the rows since a time.

        Windows that were added may lack rows of their own before they are complete.
        """
        found = {name: each for name, each in self.since.items() if name not in names}
        for name in names.intersection(self.since):
            least = {i: max(since, complete_from.get(i) or BEFORE_TIME) for i in self.since[name]}
            mine = {i: min(time, least[i]) for i, time in self.since[name].items() if least[i] > BEFORE_TIME}
            if mine:
                found[name] = mine
        return Begun(found)

    def moved(self, windows: Mapping[int, int], kept: frozenset[str]) -> Begun:
        """Return what is known of the windows and aggregates that stay, by the new numbers of the windows."""
        return Begun(
            {
                name: {windows[i]: time for i, time in each.items() if i in windows}
                for name, each in self.since.items()
                if name in kept
            }
        )

    def without_parts(self, answers: Answers, windows: Mapping[int, Window]) -> Answers:
        """Return answers with nulls where an aggregate lacks rows. O(answers), O(1) if there is no such aggregate."""
        if not self.since or not len(answers.keys):
            return answers
        aggregates = dict(answers.aggregates)
        holds = True if answers.rows is None else answers.rows[0] < answers.rows[1]
        begins = answers.start.copy()
        for i in np.unique(answers.window_ids).tolist():
            begins[answers.window_ids == i] += first_instant(windows[i])
        for name in self.since:
            aggregates[name] = nulled(aggregates[name], self.lacking(name, answers.window_ids, begins) & holds)
        return replace(answers, aggregates=aggregates)

    def lacking(self, name: str, window_ids: Array, begins: Array) -> Array:
        """Return in which windows an aggregate lacks rows, by the times since when they hold rows."""
        lacks = np.zeros(len(window_ids), np.bool_)
        for i, time in self.since.get(name, {}).items():
            lacks |= (window_ids == i) & (begins < time)
        return lacks

    def save(self) -> dict[str, dict[str, int]]:
        """Return it for a header."""
        return {name: {str(i): time for i, time in each.items()} for name, each in self.since.items()}

    @classmethod
    def load(cls, saved: Mapping[str, Mapping[str, int]]) -> Begun:
        """Return what `save` returned."""
        return cls({name: {int(i): time for i, time in each.items()} for name, each in saved.items()})


def first_instant(window: Window) -> int:
    """Return how long after its start a window begins to hold rows: 1 if the start is open, else 0 or not known."""
    shape = window.frame_shape
    return 0 if shape is None or shape.tile or shape.is_endless else shape.since - shape.low


def nulled(values: pa.Array, where: Array) -> pa.Array:
    """Return values with nulls in some places.

    >>> nulled(pa.array([1, 2]), np.array([True, False])).to_pylist()
    [None, 2]
    """
    return pc.if_else(pa.array(~where), values, pa.scalar(None, values.type)) if where.any() else values


def begun_by(latest: int) -> int:
    """Return the time from which windows had not begun, if the latest row had this time."""
    return BEFORE_TIME if latest == BEFORE_TIME else latest + 1
