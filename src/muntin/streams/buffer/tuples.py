"""The tuple buffer: rows are kept as they are, and windows found and aggregated anew. Exact for every kind of window.

The simplest strategy, for whatever has no better one, and what the others are measured against. One buffer serves all
definitions; each remembers which of its rows it refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregators.choose import Chosen
from muntin.arrays.results import to_arrow
from muntin.arrays.runner import windows_of_rows
from muntin.columns import Column
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import InvariantError
from muntin.kernels.mixing import mix
from muntin.query.plan import Plan
from muntin.restoring import RestorePoint
from muntin.streams.buffer.said import Said, compare
from muntin.streams.decisions import ROWS
from muntin.streams.strategy import Batch, Strategy
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.buffered import BufferedWindows, Moment, Windows
from muntin.windows.held_rows import HeldRows


class Tuples(Strategy):
    """A buffer of rows, sorted by key and time.

    A push takes O(n log n) for the n rows that are kept of the keys that it touches, and for each definition a pass
    over them. HeldRows are let go when no window that may still change needs them.
    """

    keeps = ROWS

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._rows = HeldRows.none(plan.types)
        self._parts = [_Part(window_id, each.buffered(plan.terms), plan) for window_id, each in plan.windows.items()]
        self._watermark = BEFORE_TIME
        self._fresh = 0  # the number of the first row since windows were last looked at
        self._arrived = 0
        self._complete_from = BEFORE_TIME  # every row from this time on is held
        self._wake = np.zeros(0, np.int64)  # for each key the watermark at which something is to be done

    @classmethod
    def can(cls, plan: Plan) -> str | None:  # noqa: ARG003  # as others are asked
        """Return None: rows answer every window."""
        return None

    def merged_by(self) -> Iterator[Chosen]:
        """Yield the aggregators of `run`, for all aggregates."""
        why = "the rows that are kept are windows of a sorted table"
        yield Chosen(tuple(self.plan.aggregates), "the aggregators of run", why)

    def take(self, batch: Batch, watermark: int) -> Array:
        """Take rows, judged by the watermark before them; return which of them some window took."""
        self._watermark = watermark
        self._fresh = min(self._fresh, batch.arrived) if self._fresh < self._arrived else batch.arrived
        order = np.argsort(batch.times, kind="stable")
        numbers = batch.arrived + np.arange(len(order), dtype=np.int64)
        new = HeldRows(batch.keys, batch.times, numbers, batch.columns).take(order)
        new = replace(new, numbers=numbers)
        taken = np.zeros(len(new), np.bool_)
        by_part = []
        for part in self._parts:
            mine = part.kind.takes(new, part.view(self._rows), watermark)
            part.kind.note(new.take(np.flatnonzero(mine)))
            by_part.append(mine)
            taken |= mine
        for part, mine in zip(self._parts, by_part, strict=True):
            part.refuse(new.numbers[taken & ~mine])
        self._rows = self._rows.with_rows(new if taken.all() else new.take(np.flatnonzero(taken)))
        if not taken.all():
            self._complete_from = max(self._complete_from, int(new.times[~taken].max()) + 1)
        self._arrived = batch.arrived + len(new)
        self._wake_at(np.unique(new.keys[taken]), BEFORE_TIME)
        result = np.zeros(len(taken), np.bool_)
        result[order] = taken
        return result

    def emit(self, watermark: int, horizon: int, *, early: bool = False) -> list[Answers]:
        """Return the windows that are due at this watermark, or have changed since they were emitted."""
        moment = Moment(self._watermark, watermark, horizon, self._fresh)
        active = np.flatnonzero(self._wake <= watermark) if not early else np.flatnonzero(self._wake < _NEVER)
        rows = self._rows if len(active) == len(self._wake) else self._rows.take(np.isin(self._rows.keys, active))
        answers: list[Answers] = []
        needed = rows.ends.copy()
        wake = np.full(len(active), END_OF_TIME)
        for part in self._parts:
            view = part.view(rows)
            emitted, first = part.emit(view, active, moment, early)
            answers += emitted
            _lower_to(needed, rows, view, first)
            part.forget(view, first)
            np.minimum(wake, part.wakes(view, active, first, watermark), out=wake)
        self._wake[active] = wake
        self._let_go(rows, needed)
        self._watermark, self._fresh = watermark, self._arrived
        return answers

    def _let_go(self, rows: HeldRows, needed: Array) -> None:
        """Keep of the rows of some keys those from the first that is needed on."""
        begins = np.concatenate(([0], rows.ends[:-1])).astype(np.int64) if len(rows.ends) else rows.ends
        if not (needed > begins).any():
            return
        gone = np.arange(len(rows)) < np.repeat(needed, rows.ends - begins)
        numbers = rows.numbers[gone]
        self._complete_from = max(self._complete_from, int(rows.times[gone].max()) + 1)
        for part in self._parts:
            mine = rows.take(np.flatnonzero(gone & part.takes_part(rows)))
            keys, counts = np.unique(mine.keys, return_counts=True)
            part.kind.dropped(keys, counts)
            part.refused = np.setdiff1d(part.refused, numbers, assume_unique=True)
        if rows is self._rows:
            self._rows = rows.take(np.flatnonzero(~gone))
        else:
            self._rows = self._rows.take(np.flatnonzero(~np.isin(self._rows.numbers, numbers)))

    def _wake_at(self, keys: Array, when: int) -> None:
        size = int(keys.max(initial=-1)) + 1
        if size > len(self._wake):
            more = np.full(max(size, 2 * len(self._wake)) - len(self._wake), _NEVER, np.int64)
            self._wake = np.concatenate((self._wake, more))
        self._wake[keys] = when

    def add(self, window_id: int, definition: Window, plan: Plan) -> int:
        """Answer one more definition, from the rows that are kept. O(n log n) for n rows."""
        part = _Part(window_id, definition.buffered(plan.terms), plan)
        part.begin(self._rows, self._watermark)
        self._parts = [*self._parts, part]
        self.plan = plan
        self._wake_at(np.flatnonzero(self._wake < _NEVER), BEFORE_TIME)
        return self._complete_from

    def remove(self, window_id: int, plan: Plan) -> None:
        """Answer a definition no more; what only it needed is let go with the next push."""
        self._parts = [part for part in self._parts if part.window_id != window_id]
        self.plan = plan
        self._wake_at(np.flatnonzero(self._wake < _NEVER), BEFORE_TIME)

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current rows and definitions."""
        state, parts, plan = self.save(), self._parts, self.plan

        def restore() -> None:
            self._parts, self.plan = parts, plan
            self.load(state)

        return restore

    def held_keys(self) -> Array:
        """Return the numbers of the keys of which anything is kept, ascending."""
        held = [self._rows.keys, *(part.held_keys() for part in self._parts)]
        return np.unique(np.concatenate(held)).astype(np.int64)

    def save(self) -> dict[str, Array]:
        """Return the whole state, as arrays by name."""
        state = {f"rows.{name}": array for name, array in self._rows.save().items()}
        state["marks"] = np.array([self._watermark, self._fresh, self._arrived, self._complete_from], np.int64)
        state["wake"] = self._wake.copy()
        for i, part in enumerate(self._parts):
            state |= {f"{i}.{name}": array for name, array in part.save().items()}
        return state

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, of a strategy with the same plan."""
        self._rows = self._rows.load(_under("rows.", state))
        self._watermark, self._fresh, self._arrived, self._complete_from = map(int, state["marks"])
        self._wake = state["wake"].copy()
        for i, part in enumerate(self._parts):
            part.load(_under(f"{i}.", state))

    def metrics(self) -> dict[str, int]:
        """Return how many rows are kept, and the bytes of state."""
        size = self._rows.nbytes + self._wake.nbytes + sum(part.nbytes for part in self._parts)
        return {"kept": len(self._rows), "bytes": size}

    def check(self) -> None:
        """Raise `InvariantError` where the state contradicts itself."""
        rows = self._rows
        order = np.lexsort((rows.numbers, rows.times, rows.keys))
        if not np.array_equal(order, np.arange(len(rows))):
            raise InvariantError("the tuple buffer is not sorted by key, time and arrival")
        if len(np.unique(rows.numbers)) != len(rows):
            raise InvariantError("a row is in the tuple buffer twice")
        for name, column in rows.columns.items():
            if len(column.values) != len(rows) or (column.valid is not None and len(column.valid) != len(rows)):
                raise InvariantError(f"the column {name!r} of the tuple buffer is not as long as the others")
        if len(rows) and (self._wake[rows.present] == _NEVER).any():
            raise InvariantError("a key has rows in the tuple buffer, but none of them will be looked at again")
        for part in self._parts:
            part.check(rows)


_NEVER = END_OF_TIME
"""A key that sleeps for ever: nothing happens to it unless a row comes, or the stream is closed."""


def _under(prefix: str, state: Mapping[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def _lower_to(needed: Array, rows: HeldRows, view: HeldRows, first: Array) -> None:
    """Lower the first row needed of each key to that of a definition, which sees some of the rows."""
    if view is rows:
        np.minimum(needed, first, out=needed)
        return
    key = np.searchsorted(rows.present, view.present)
    place = np.append(np.flatnonzero(np.isin(rows.numbers, view.numbers)), len(rows))
    place = np.where(first < view.ends, place[np.minimum(first, len(place) - 1)], rows.ends[key])
    needed[key] = np.minimum(needed[key], place)


class _Part:
    """One definition: what it has refused, and what was said of its windows."""

    def __init__(self, window_id: int, kind: BufferedWindows, plan: Plan) -> None:
        self.window_id = window_id
        self.kind = kind
        self.plan = plan
        self.refused = np.zeros(0, np.int64)
        self.said = Said.nothing(getattr(kind, "number", np.int64))

        self._pending = self.said.key, self.said.due

    def begin(self, rows: HeldRows, watermark: int) -> None:
        """Begin with rows that came before: they are taken, and what is settled by now is not looked at."""
        self.kind.takes(rows.take(np.argsort(rows.numbers)), rows.take(slice(0, 0)), BEFORE_TIME)
        self.kind.note(rows)
        windows = self.kind.windows(rows, rows.present, Moment(BEFORE_TIME, BEFORE_TIME, BEFORE_TIME, 0))
        self.kind.settle(windows, self.kind.settled(windows.due, watermark), watermark)

    # ------------------------------------------------------------ rows

    def refuse(self, numbers: Array) -> None:
        if len(numbers):
            self.refused = np.union1d(self.refused, numbers)

    def forget(self, rows: HeldRows, first: Array) -> None:
        """Refuse the rows that are not needed, if they must be out of sight: others may keep them."""
        if self.kind.forgets and len(rows):
            lengths = np.diff(rows.ends, prepend=0)
            self.refuse(rows.numbers[np.arange(len(rows)) < np.repeat(first, lengths)])

    def takes_part(self, rows: HeldRows) -> Array:
        """Return which rows are the definition's."""
        return ~np.isin(rows.numbers, self.refused) if len(self.refused) else np.ones(len(rows), np.bool_)

    def view(self, rows: HeldRows) -> HeldRows:
        """Return the rows of the definition: themselves, where it has refused none."""
        mine = self.takes_part(rows) if len(self.refused) else None
        return rows if mine is None or mine.all() else rows.take(np.flatnonzero(mine))

    # ------------------------------------------------------------ windows

    def emit(self, rows: HeldRows, active: Array, moment: Moment, early: bool) -> tuple[list[Answers], Array]:
        """Return what is to be said of the windows of some keys, and the first row that each key still needs."""
        windows = self.kind.windows(rows, active, moment)
        alive = np.flatnonzero(~windows.settled)
        now = self._described(windows, rows, alive)
        complete = np.ones(len(alive), np.bool_) if windows.full is None or self.plan.partial else windows.full[alive]
        is_due = complete & (now.due <= moment.watermark)
        is_said = is_due
        if early:
            is_said = is_due | (complete & (windows.found.first < windows.found.last)[alive])
        is_active = np.isin(self.said.key, active) if len(self.said) else np.zeros(0, np.bool_)
        news = compare(self.said.take(np.flatnonzero(is_active)), now, is_due, is_said)
        answers = []
        if len(news.emitted):
            answers.append(self._aggregated(windows, rows, alive[news.emitted], now.take(news.emitted), news.revision))
        if len(news.retracted):
            answers.append(self._retracted(news.retracted))
        self._remember(self.said.take(np.flatnonzero(~is_active)).with_windows(news.said), moment.watermark)
        settled = self.kind.settled(windows.due, moment.watermark) | windows.settled
        self.kind.settle(windows, settled, moment.watermark)
        self._pending = windows.key[~settled], windows.due[~settled]
        return answers, self.kind.needed(rows, windows, settled, moment.watermark)

    def _described(self, windows: Windows, rows: HeldRows, which: Array) -> Said:
        found = windows.found
        numbers = rows.numbers if found.members is None else rows.numbers[found.members]
        total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mix(numbers.astype(np.uint64)), dtype=np.uint64)))
        nothing = np.zeros(len(found.first), np.int64)
        low, high = found.rows or found.values or (nothing, nothing)
        count = len(which)
        name_a, name_b, name_c = (each[which] for each in windows.name)
        return Said(
            windows.key[which],
            name_a,
            name_b,
            name_c,
            found.start[which],
            found.end[which],
            low[which].astype(self.said.low.dtype),
            high[which].astype(self.said.low.dtype),
            total[found.last[which]] - total[found.first[which]],
            windows.due[which],
            np.zeros(count, np.int64),
            np.zeros(count, np.bool_),
            np.zeros(count, np.bool_),
        )

    def _remember(self, said: Said, watermark: int) -> None:
        """Forget what is settled; what was retracted, when a window of that name could not come back."""
        self.said = said.take(np.flatnonzero(~self.kind.settled(_last_chance(said), watermark)))

    def wakes(self, rows: HeldRows, active: Array, first: Array, watermark: int) -> Array:
        """Return for each key that is active when it is to be looked at again."""
        wake = self.kind.wakes_without_rows(active, watermark)
        key, due = self._pending
        settles = np.minimum(due, END_OF_TIME - self.kind.slack) + self.kind.slack
        np.minimum.at(wake, np.searchsorted(active, key), np.where(due > watermark, due, settles))
        mine = np.isin(self.said.key, active) if len(self.said) else np.zeros(0, np.bool_)
        chance = np.minimum(_last_chance(self.said)[mine], END_OF_TIME - self.kind.slack) + self.kind.slack
        np.minimum.at(wake, np.searchsorted(active, self.said.key[mine]), chance)
        np.minimum.at(wake, np.searchsorted(active, rows.present), self.kind.wakes(rows, first, watermark))
        return np.minimum(wake, END_OF_TIME - 1)  # at the latest when the stream is closed

    # ------------------------------------------------------------ answers

    def _aggregated(self, windows: Windows, rows: HeldRows, which: Array, now: Said, revision: Array) -> Answers:
        found = windows.found
        first, last = found.first[which], found.last[which]
        data: Mapping[str, Column] = rows.columns
        times = rows.times
        if found.members is not None:
            rows = rows.take(found.members)
            data, times = rows.columns, rows.times
        raw = windows_of_rows(data, times, self.plan.time_type, first, last, self.plan.aggregates)
        aggregates = {name: to_arrow(each) for name, each in raw.items()}
        return self._answers(now, aggregates, revision, np.zeros(len(which), np.bool_))

    def _retracted(self, gone: Said) -> Answers:
        nulls = {name: pa.nulls(len(gone)) for name in self.plan.aggregates}
        return self._answers(gone, nulls, gone.revision, gone.retracted)

    def _answers(self, said: Said, aggregates: Mapping[str, Any], revision: Array, retracted: Array) -> Answers:
        ids = np.full(len(said), self.window_id, np.int64)
        bounds = (said.low, said.high)
        fields = self.kind.definition.bounds(self.plan.types)
        return Answers(
            said.key,
            ids,
            said.start,
            said.end,
            aggregates,
            revision,
            retracted,
            rows=bounds if "from_row" in fields else None,
            values=bounds if "from_value" in fields else None,
        )

    # ------------------------------------------------------------ state

    def held_keys(self) -> Array:
        return np.union1d(self.said.key, self.kind.held_keys())

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.save().values())

    def save(self) -> dict[str, Array]:
        state = {f"said.{name}": array for name, array in self.said.save().items()}
        kind = {f"kind.{name}": array for name, array in self.kind.save().items()}
        return {"refused": self.refused, **state, **kind}

    def load(self, state: Mapping[str, Array]) -> None:
        self.refused = state["refused"]
        self.said = Said.load(_under("said.", state))
        self.kind.load(_under("kind.", state))

    def check(self, rows: HeldRows) -> None:
        if not np.isin(self.refused, rows.numbers).all():
            raise InvariantError(f"window {self.window_id} has refused a row that nobody has")


def _last_chance(said: Said) -> Array:
    """Return when what was said of windows is final: when they are due; if retracted, when they would have been."""
    return np.where(said.retracted, np.minimum(said.due, said.end), said.due)
