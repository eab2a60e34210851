"""Windows by the values of a column that advances, over rows in order.

As long as the values of a key ascend with time, the rows of a window are next to one another, and are found by value as
others are by time. Where they do not, the windows of that key are found among all its rows, until those that break the
order are gone: O(rows of the key) for each push.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.emitted import EmittedWindows
from muntin.streams.rows.cut import Cuts, CutWindows, Kept
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.part import OWN, REFUSED, Moment
from muntin.streams.rows.per_key import PerKey
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.store import RowStore
from muntin.streams.strategy import Batch
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.found import SortedRows
from muntin.windows.shapes import EdgesFrom


class ByValue(CutWindows):
    """One definition of windows by value; their order is that of their first values.

    A window is due when the column is beyond it, and final by the greatest value that is old.
    """

    window: Any
    counts = (*CutWindows.counts, "settled_at")
    how: ClassVar[str] = (
        "a window is a range of values, found in O(log^2 n) while the values of its key ascend with time; else a push "
        "reads all rows of the key, until those that break the order are gone"
    )

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        (column,) = window.columns
        self.number = np.int64 if window.bounds(plan.types)["from_value"] == pa.int64() else np.float64
        super().__init__(window_id, window, plan)
        self._time_type, self._column = plan.time_type, column
        self._steps = np.array(self.window.steps, self.number)
        self._value = f"{window_id}.value"
        no_value = np.iinfo(np.int64).min if self.number is np.int64 else -np.inf
        lowest = int(as_order(np.array([no_value], self.number))[0])
        self._reached, self._old = PerKey(lowest), PerKey(lowest)
        """The greatest value of each key up to the watermark, and of those that are final, as orders."""
        self._unordered = PerKey()
        """1 for each key whose values do not ascend with time."""
        self.settled_at = BEFORE_TIME
        """The time up to which values are old."""
        self._fresh: list[Batch] = []
        self._final_starts: set[tuple[int, Any]] = set()
        """Windows that were final already when rows of this push created them: the key and the first value."""

    @classmethod
    def answers(cls, window: Window) -> bool:
        """Return whether the values of a column tell its edges."""
        return window.edges is EdgesFrom.VALUES

    @property
    def beside(self) -> Mapping[str, type]:
        """The value of each row, as a number of windows."""
        return {self._value: self.number}

    # ------------------------------------------------------------ rows

    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return OWN for rows in a window that may change, REFUSED for the rest, and for those without a value."""
        values, valued = self.window.numbers(rows)
        verdicts = np.full(len(rows.times), REFUSED, np.int8)
        verdicts[valued] = OWN
        values = values.astype(self.number)
        is_old = self.late_until(watermark)
        risky = (rows.times <= is_old) | (as_order(values) < self._old[rows.keys])
        slow = np.flatnonzero(np.isin(rows.keys, rows.keys[valued[risky[valued]]]) & (verdicts == OWN))
        beyond: dict[int, Any] = {}
        taken: dict[int, list[Any]] = {}
        for row in slow.tolist():
            key, value = int(rows.keys[row]), values[row]
            known = self._greatest_old(key)
            most = beyond.get(key, known)
            if most is not None and self._last_end(value) <= most:
                verdicts[row] = REFUSED
                continue
            if most is not None and value < most and most != known:
                self._note_final(store, key, value, most, taken.get(key, []))
            taken.setdefault(key, []).append(value)
            if rows.times[row] <= is_old:
                beyond[key] = value if most is None else max(most, value)
        return verdicts

    def _greatest_old(self, key: int) -> Any:
        """Return the greatest value of a key that is old; None if none is."""
        order = self._old[np.array([key])]
        return None if order[0] == self._old.default else from_order(order, self.number)[0]

    def _last_end(self, value: Any) -> Any:
        length, every, offset = self._steps
        return (value - offset) // every * every + offset + length

    def _note_final(self, store: RowStore, key: int, value: Any, most: Any, here: list[Any]) -> None:
        """Note the windows that hold a value, and no other one, but end by the greatest old value. O(rows of the key).

        Only rows that are too late and yet ahead of all others make `most` greater than it was.
        """
        length, every, offset = self._steps
        _, places = store.rows(np.intersect1d(store.present, [key]))
        values = np.concatenate((store.beside[self._value][places], np.array(here, self.number)))
        number = (value - offset - length) // every + 1
        while number * every <= value - offset:
            low = number * every + offset
            if low + length <= most and not ((low <= values) & (values < low + length)).any():
                self._final_starts.add((key, low))
            number += 1

    def numbers(self, rows: Batch, verdicts: Array) -> Mapping[str, Array]:
        """Return the values of admitted rows."""
        return {self._value: self.window.numbers(rows)[0].astype(self.number)}

    def took(self, store: RowStore, rows: Batch) -> None:
        """Note which values do not ascend."""
        self._fresh.append(rows)
        found = np.empty(len(rows.keys), np.int64)
        store.kernels.find_disorder(store.tree, store.beside[self._value], rows.keys, rows.times, found)
        unordered = rows.keys[found > 0]
        if len(unordered):
            self._unordered[unordered] = np.ones(len(unordered), np.int64)

    def begin(self, store: RowStore, watermark: int) -> None:
        """Begin with the rows held."""
        super().begin(store, watermark)
        keys, places = store.rows()
        held = Batch(keys, store.tree.times[places], store.take(places))
        store.beside[self._value][places] = self.window.numbers(held)[0].astype(self.number)
        self._fresh = []
        if len(keys):
            self.took(store, held)
            self._raise(store, self._old, store.present, BEFORE_TIME, self.looked_at)
            self._reached.values = self._old.values.copy()
        self._fresh = []
        self.settled_at = self.looked_at

    def _raise(self, store: RowStore, which: PerKey, keys: Array, after: int, upto: int) -> None:
        """Raise the greatest values of keys to those at times in (after, upto], and of new rows up to that."""
        most = from_order(which[keys], self.number)
        state = store.tree, store.beside[self._value], keys
        store.kernels.greatest_between(*state, after, min(upto, END_OF_TIME - 1), most)
        which[keys] = as_order(most)
        for rows in self._fresh:
            early = np.flatnonzero(rows.times <= after)
            values = self.window.numbers(rows)[0].astype(self.number)
            which.raise_to(rows.keys[early], as_order(values[early]))

    # ------------------------------------------------------------ windows

    def spans(self, store: RowStore, fresh: Fresh, moment: Moment) -> Spans:
        """Return the first values of windows that the column has passed, and of those with new rows.

        One window more on each side: the ends of floats are rounded.
        """
        keys, (length, every, _) = fresh.keys, self._steps
        lowest = self._reached.default
        before = self._reached[keys]
        self._raise(store, self._reached, keys, self.looked_at, moment.watermark)
        after = self._reached[keys]
        low, high = np.full(len(keys), lowest), np.full(len(keys), -lowest - 1)
        known = before > lowest
        low[known] = as_order(from_order(before[known], self.number) - length - every)
        if not moment.early and moment.watermark < END_OF_TIME:
            passed = after > lowest
            high[passed] = as_order(from_order(after[passed], self.number) - length + every)
            high[~passed] = lowest
        of_rows = [
            (rows.keys, as_order(values - length - every), as_order(values))
            for rows in self._fresh
            for values in (self.window.numbers(rows)[0].astype(self.number),)
        ]
        return Spans.merged(store.kernels, (keys, low, high), *of_rows)

    def apart(self, spans: Spans) -> Iterator[Spans]:
        """Yield the stretches of keys whose values ascend, and those of the others."""
        unordered = self._unordered[spans.keys] > 0
        for chosen in (~unordered, unordered):
            if chosen.any():
                yield Spans(spans.keys[chosen], spans.low[chosen], spans.high[chosen])

    def cut(self, store: RowStore, spans: Spans, moment: Moment) -> Cuts:
        """Return the windows that begin in some stretches. O(log^2 n) each if values ascend, else O(n)."""
        found = self._among_all if self._unordered[spans.keys[:1]].any() else self._in_order
        return self._judged(found(store, spans))

    def _in_order(self, store: RowStore, spans: Spans) -> Cuts:
        low, high = (from_order(each, self.number) for each in (spans.low, spans.high))
        room = 256
        while True:
            which = np.empty(room, np.int64)
            start: Array = np.empty(room, self.number)
            out = np.empty(4 * room, np.int64)
            state = store.tree, store.beside[self._value], self._steps, spans.keys, low, high
            count = store.kernels.find_valued(*state, which, start, out)
            if count >= 0:
                break
            room *= 4
        first, last, counts, due = (out.reshape(-1, 4)[:count, i].copy() for i in range(4))
        keys, low = spans.keys[which[:count]], start[:count]
        times = store.times_at(first), store.times_at(last - 1)
        return self._cuts(keys, first, last, times, due, low, counts)

    def _cuts(
        self, keys: Array, first: Array, last: Array, times: tuple[Array, Array], due: Array, low: Array, counts: Array
    ) -> Cuts:
        order = as_order(low)
        bounds = low, low + self._steps[0]
        return Cuts(keys, first, last, *times, due, order, counts, (order,), bounds)

    def _among_all(self, store: RowStore, spans: Spans) -> Cuts:
        """Return the windows of keys whose values do not ascend. O(rows of these keys)."""
        parts = [self._of_key(store, key, spans) for key in np.unique(spans.keys).tolist()]
        places = np.concatenate([part.places for part in parts if part.places is not None])
        shifts = np.cumsum([0, *(0 if part.places is None else len(part.places) for part in parts)])
        firsts = [part.first + by for part, by in zip(parts, shifts, strict=False)]
        lasts = [part.last + by for part, by in zip(parts, shifts, strict=False)]
        keys, start, end, due, order, counts = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("keys", "start", "end", "due", "order", "content")
        )
        first, last = np.concatenate(firsts), np.concatenate(lasts)
        low = from_order(order, self.number)
        return replace(self._cuts(keys, first, last, (start, end), due, low, counts), places=places)

    def _of_key(self, store: RowStore, key: int, spans: Spans) -> Cuts:
        _, places = store.rows(np.array([key]))
        times, values = store.tree.times[places], store.beside[self._value][places]
        columns = {self._column: store.take(places)[self._column]}
        ends = np.array([len(places)])
        found = self.window.find(SortedRows(times, ends, range(len(places)), columns, self._time_type))
        low, high = (each.astype(self.number) for each in found.values)
        by_value = np.argsort(values, kind="stable")
        soonest = np.append(np.minimum.accumulate(times[by_value][::-1])[::-1], END_OF_TIME)
        due = soonest[np.searchsorted(values[by_value], high)]
        order = as_order(low)
        wanted = np.zeros(len(order), np.bool_)
        for at in np.flatnonzero(spans.keys == key):
            wanted |= (spans.low[at] <= order) & (order <= spans.high[at])
        members = np.arange(len(places)) if found.members is None else found.members
        bounds = found.first[wanted], found.last[wanted]
        times = found.start[wanted], found.end[wanted]
        cuts = self._cuts(np.full(wanted.sum(), key), *bounds, times, due[wanted], low[wanted], bounds[1] - bounds[0])
        return replace(cuts, places=places[members])

    def _judged(self, windows: Cuts) -> Cuts:
        """Return the windows with those that were final before marked."""
        assert windows.bounds is not None
        is_final = as_order(windows.bounds[1]) <= self._old[windows.keys]
        if self._final_starts:
            names = zip(windows.keys.tolist(), windows.bounds[0].tolist(), strict=True)
            is_final |= np.array([name in self._final_starts for name in names], np.bool_)
        return replace(windows, is_final=is_final)

    def alive(self, spans: Spans, moment: Moment) -> tuple[Array, EmittedWindows]:
        """Return the places of emitted windows in some stretches that no old value is beyond, and these windows."""
        places, held, _ = self.ledger.within(spans, self.settled(moment.before))
        is_alive = as_order(held.facts["high"]) > self._old[held.keys]
        return places[is_alive], held.take(is_alive)

    def need(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows of windows that are not final; look at a key when its next row is due or old."""
        settled = self.settled(watermark)
        self._raise(store, self._old, keys, self.settled_at, settled)
        self.settled_at = settled
        self._fresh, self._final_starts = [], set()
        old = self._old[keys]
        known = np.flatnonzero(old > self._old.default)
        ranks = np.zeros(len(keys), np.int64)
        first: Array = np.zeros(len(keys), self.number)
        length, every, offset = self._steps
        first[known] = ((from_order(old[known], self.number) - offset - length) // every + 1) * every + offset
        counts = np.empty(len(known), np.int64)
        state = store.tree, store.beside[self._value], keys[known], first[known]
        store.kernels.ranks_of_values(*state, counts)
        ranks[known] = counts
        for i in np.flatnonzero(self._unordered[keys]):
            ranks[i] = self._first_needed(store, int(keys[i]), first[i] if i in known else None)
        np.minimum(needed, ranks, out=needed)
        for time, wait in ((watermark, 0), (settled, self.slack)):
            _, following = store.around(keys, np.full(len(keys), min(time, END_OF_TIME - 1)))
            np.minimum(wake, np.minimum(following, END_OF_TIME - wait) + wait, out=wake)

    def _first_needed(self, store: RowStore, key: int, first: Any) -> int:
        """Return how many of a key's first rows no window needs; notes whether its values ascend. O(rows)."""
        _, places = store.rows(np.intersect1d(store.present, [key]))
        values = store.beside[self._value][places]
        if (values[1:] >= values[:-1]).all():
            self._unordered.unset(np.array([key]))
        if first is None:
            return 0
        held = np.flatnonzero(values >= first)
        return int(held[0]) if len(held) else len(values)

    # ------------------------------------------------------------ keys

    def forget(self, keys: Array) -> None:
        """Forget the values and the emitted windows of keys."""
        super().forget(keys)
        for each in (self._reached, self._old, self._unordered):
            each.unset(keys)

    def held_keys(self) -> Array:
        """Return the keys with emitted windows that may change, or values."""
        return np.union1d(super().held_keys(), self._old.keys())

    @property
    def kept(self) -> Mapping[str, Kept]:
        """The emitted windows, and how far the values of keys have come."""
        return {**super().kept, "reached": self._reached, "old": self._old, "unordered": self._unordered}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        super().load(state)
        self._fresh, self._final_starts = [], set()


_MAGNITUDE = np.int64(np.iinfo(np.int64).max)


def as_order(values: Array) -> Array:
    """Return integers in the order of numbers: these themselves, or the bits of floats. NaN has no place.

    >>> as_order(np.array([-1.5, 0.0, 2.0])).argsort().tolist()
    [0, 1, 2]
    """
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    bits = (values + 0.0).view(np.int64)  # zero has one sign
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)


def from_order(orders: Array, number: type) -> Array:
    """Return the numbers with these orders; an order beyond all numbers gives an infinite one.

    >>> from_order(as_order(np.array([-1.5, 2.0])), np.float64).tolist()
    [-1.5, 2.0]
    """
    if number is np.int64:
        return orders.copy()
    limit = as_order(np.array([np.inf]))[0]
    orders = np.clip(orders, -limit - 1, limit)
    return np.where(orders < 0, orders ^ _MAGNITUDE, orders).view(np.float64)
