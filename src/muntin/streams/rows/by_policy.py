"""Windows of slide policies, over rows in order: each push asks a policy about its rows, and about no others.

The policy's own aggregations are states in the nodes of the trees, like those that are reported. A window is final with
its row; the policy goes on from what it left there, and never looks further back. The rows before are evicted, so a
policy has a store of its own: for it, rows that others still need must not come back between those that it left.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.aggregations.binding import Binding, bind
from muntin.columns import Column, mask_of
from muntin.durations import BEFORE_TIME
from muntin.errors import InvariantError, PolicyWarning
from muntin.query.plan import Plan
from muntin.streams.change import Change
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.judging import (
    DOUBT,
    EXAMINED,
    FRONT,
    GONE,
    JUDGED,
    NEW,
    NUMBERS,
    SCRATCH,
    Remembered,
    Slid,
    kernels_of,
)
from muntin.streams.rows.part import OWN, REFUSED, Emission, Moment, Part
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import KEY as KEY_NUMBERS
from muntin.streams.rows.tree import LEAF_SIZE, NONE, ROWS
from muntin.streams.strategy import Batch
from muntin.types import Array
from muntin.windows.base import Measure, Window

_ROOM = 1 << 10
_COLUMNS = {"gone": GONE, "done": JUDGED, "seen": EXAMINED, "front": FRONT}
"""The names of a key's numbers in a saved state."""
_NO_WORDS, _NO_NUMBERS = np.zeros(0, np.int32), np.zeros(0, np.int64)


class ByPolicy(Part):
    """One definition of windows by a policy: one for each row for which the policy leaves one."""

    how: ClassVar[str] = (
        "the policy is asked about new rows, amortised O(1) times each (O(log n) if it is not monotone), and after a "
        "late row about those behind it, until one has the window that it had"
    )
    for_ever: bool = True
    is_apart: ClassVar[bool] = True

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        made: Any = window
        self.policy = made.policy
        rule = self.policy.rule(plan.time_type)
        self.binding = bind(self.policy.named, plan.types, time=plan.time_type, gaps=False, rule=rule)
        self._types = plan.types
        self._early = plan.early
        self._remembers = plan.lateness > 0 or plan.early
        """Whether a window may change after it was emitted."""
        self._numbers = np.zeros(0, np.int64)
        self._room = Slid.empty(_ROOM)
        self._scratch = self.binding.slots(0)
        self._window = np.zeros(5, np.int64)
        self._watermark = BEFORE_TIME
        """That by which rows were admitted last."""
        self._warned = False

    @classmethod
    def answers(cls, window: Window) -> bool:
        """Return whether a policy decides where it begins."""
        return window.measure is Measure.POLICY

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """What the policy sees of rows."""
        return (self.binding,)

    @property
    def beside(self) -> Mapping[str, type]:
        """Of each row a word, the length of its window, and what is known of the window that was emitted."""
        if not self._remembers:
            return {}
        names = {"word": np.int32, "length": np.int64, "start": np.int64}
        names |= {"emitted": np.int64} if self._early else {}
        return {f"{self.window_id}.{name}": kind for name, kind in names.items()}

    def _remembered(self, store: RowStore) -> Remembered:
        if not self._remembers:
            return Remembered(_NO_WORDS, _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS)
        emitted = "emitted" if self._early else "length"
        return Remembered(*(store.beside[f"{self.window_id}.{each}"] for each in ("word", "length", emitted, "start")))

    def _inputs(self, store: RowStore) -> tuple[Any, ...]:
        """Return the trees, and the states and columns that the policy sees."""
        which = next(i for i, each in enumerate(store.bindings) if each is self.binding)
        return store.tree, store.states[which], store.inputs(which)

    @property
    def _kernels(self) -> Any:
        return kernels_of(self.binding)

    # ------------------------------------------------------------ rows

    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return the verdict on each row: one that is too late is taken if a window that is not final would hold it."""
        self._watermark = watermark
        verdicts = np.full(len(rows.times), OWN, np.int8)
        late = self._late(rows)
        if not late.any():
            return verdicts
        self._know_keys(store)
        verdicts[late] = REFUSED
        which = np.flatnonzero(late & (rows.keys < store.keys))
        if len(which):
            judge = self._judged_anew if self.policy.thorough else self._judged
            verdicts[which] = np.where(judge(store, rows.take(which)), OWN, REFUSED)
        return verdicts

    def _late(self, rows: Batch) -> Array:
        """Return which rows are too late for a window of their own."""
        settled = self.late_until(self._watermark)
        if rows.least >= self._watermark or rows.least > settled:
            return np.zeros(len(rows.times), np.bool_)
        late: Array = (rows.times <= settled) & (rows.times < self._watermark)
        return late

    def _judged(self, store: RowStore, rows: Batch) -> Array:
        taken = np.empty(len(rows.times), np.int64)
        late = self.binding.inputs(rows.columns, len(rows.times))
        state = (rows.keys, rows.times, self._numbers, self._room_for_states(store))
        self._kernels.judge_late(*self._inputs(store), late, *state, taken)
        return taken > 0

    def _judged_anew(self, store: RowStore, rows: Batch) -> Array:
        """Return which late rows a window would hold whose policy is not monotone, each tried in a copy of the rows.

        O(rows of the window) for each: what such a policy says depends on all parts of it, and on their numbers.
        """
        taken = np.zeros(len(rows.times), np.bool_)
        for key in np.unique(rows.keys).tolist():
            gone, judged, _, front = self._numbers[key * NUMBERS : (key + 1) * NUMBERS].tolist()
            _, places = store.rows(np.array([key]))
            if judged == len(places):
                continue  # no window may change
            places = places[front : judged + 1]
            held = Batch(np.zeros(len(places), np.int64), store.tree.times[places], store.take(places))
            for row in np.flatnonzero(rows.keys == key).tolist():
                at = int(np.searchsorted(held.times, rows.times[row], "right"))
                if at == 0 and judged > front:
                    continue  # it may belong before rows that were evicted
                after = _with_row(held, rows, row, at)
                taken[row] = self._first_kept(after, gone + front) <= at
                held = after if taken[row] else held
                judged += int(taken[row])
        return taken

    def _first_kept(self, rows: Batch, gone: int) -> int:
        """Return the first of one key's rows that the policy leaves, asked after the last one. O(n)."""
        trial = RowStore(self._types, [self.binding])
        trial.insert(rows.keys, rows.times, rows.columns, {})
        found: int = self._kernels.cut_down(trial.tree, trial.states[0], trial.inputs(0), 0, gone, 0, len(rows.times))
        return found

    def numbers(self, rows: Batch, verdicts: Array) -> Mapping[str, Array]:
        """Return what is known of the windows of admitted rows: nothing."""
        count = len(rows.times)
        return {name: np.full(count, NEW if kind is np.int32 else 0, kind) for name, kind in self.beside.items()}

    def took(self, store: RowStore, rows: Batch) -> None:
        """Count the late rows among those whose windows are final."""
        self._know_keys(store)
        late = rows.keys[self._late(rows)]
        for column in (JUDGED, EXAMINED):
            np.add.at(self._numbers, late * NUMBERS + column, 1)

    def _know_keys(self, store: RowStore) -> None:
        size = store.keys * NUMBERS
        if size > len(self._numbers):
            self._numbers = np.concatenate((self._numbers, np.zeros(size - len(self._numbers), np.int64)))

    def _room_for_states(self, store: RowStore) -> Array:
        size = int(store.tree.marks[LEAF_SIZE]) + SCRATCH
        if len(self._scratch) < size:
            self._scratch = self.binding.slots(size)
        return self._scratch

    # ------------------------------------------------------------ windows

    def emit(self, store: RowStore, fresh: Fresh, moment: Moment) -> Iterator[Emission]:
        """Yield the windows that are due, or hold other rows than when they were emitted, or are there no more."""
        early = 2 if moment.early else int(self._early)
        settled = self.late_until(moment.before)
        found = self._find(store, fresh, np.array([moment.watermark, moment.before, settled, early], np.int64))
        self._warn_of_doubt()
        gone = found.first == NONE
        if not gone.any():
            yield _emission(store, found, is_retracted=False)
        else:
            yield _emission(store, found.take(~gone), is_retracted=False)
            yield _emission(store, found.take(gone), is_retracted=True)

    def _find(self, store: RowStore, fresh: Fresh, moment: Array) -> Slid:
        self._know_keys(store)
        cursor = np.array([0, NONE, 0, 0, 0, NONE, 0, 0], np.int64)
        kept = (self._room_for_states(store), self._window, self._remembered(store), self._numbers)
        while not self._kernels.find_slid(*self._inputs(store), *kept, moment, fresh, cursor, self._room):
            self._room = self._room.longer()
        return self._room.take(slice(0, int(cursor[2])))

    def _warn_of_doubt(self) -> None:
        if self._window[DOUBT] and not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.policy!r} keeps the oldest row and would let the whole window go, so it is not monotone; "
                "define it with thorough=True",
                PolicyWarning,
                stacklevel=2,
            )

    def let_go(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows that the policy left at the last final row; look at a key when a row is due, or final."""
        moment = np.array([watermark, watermark, self.late_until(watermark), 0], np.int64)
        state = (self._remembered(store).lengths, keys, self._numbers, moment, self.lateness)
        self._kernels.windows_need(store.tree, *state, needed, wake)

    def evicted(self, store: RowStore, keys: Array, counts: Array) -> None:
        """Count the evicted rows."""
        numbers = self._numbers.reshape(-1, NUMBERS)
        numbers[keys, GONE] += counts
        for column in (JUDGED, EXAMINED, FRONT):
            numbers[keys, column] -= counts

    def forget(self, keys: Array) -> None:
        """Begin with the next rows of keys as with the first ones."""
        self._numbers.reshape(-1, NUMBERS)[keys] = 0

    def held_keys(self) -> Array:
        """Return the keys whose rows are numbered."""
        return np.flatnonzero(self._numbers.reshape(-1, NUMBERS).any(axis=1))

    def begin(self, store: RowStore, watermark: int) -> None:
        """Begin with the rows held: the policy is asked about those that are final already, whose windows are over."""
        keys = store.present
        settled = self.late_until(watermark)
        fresh = Fresh(keys, np.zeros(0, np.int64), np.zeros(len(keys), np.int64))
        self._find(store, fresh, np.array([settled, BEFORE_TIME, BEFORE_TIME, 0], np.int64))
        unused = np.zeros((2, len(keys)), np.int64)
        self.let_go(store, keys, watermark, *unused)

    def adopt(self, store: RowStore, change: Change) -> None:
        """Ask the policy about the rows held, if nobody has remembered their windows so far: all are final."""
        if self._remembers and not (change.lateness > 0 or change.early):
            self.begin(store, change.watermark)

    # ------------------------------------------------------------ state

    def save(self) -> dict[str, Array]:
        """Return the numbers of keys, by their numbers."""
        numbers = self._numbers.reshape(-1, NUMBERS)
        return {name: numbers[:, column].copy() for name, column in _COLUMNS.items()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        self._numbers = np.stack([state[name] for name in _COLUMNS], axis=1).ravel()

    def check(self, store: RowStore) -> None:
        """Raise `InvariantError` if the numbers of a key are not those of rows held."""
        numbers = self._numbers.reshape(-1, NUMBERS)
        held = np.zeros(len(numbers), np.int64)
        rows = store.tree.keys[ROWS::KEY_NUMBERS][: len(numbers)]
        held[: len(rows)] = rows
        front, judged, examined = numbers[:, FRONT], numbers[:, JUDGED], numbers[:, EXAMINED]
        wrong = np.flatnonzero(~((front >= 0) & (front <= judged) & (judged <= examined) & (examined <= held)))
        if len(wrong):
            key = int(wrong[0])
            raise InvariantError(f"key {key} holds {held[key]} rows, and its numbers are {numbers[key].tolist()}")


def _emission(store: RowStore, found: Slid, *, is_retracted: bool) -> Emission:
    ends = store.tree.times[found.places]
    span = (found.first, found.last, found.starts, ends)
    return Emission(found.keys, *span, found.revisions, is_retracted=is_retracted)


def _with_row(held: Batch, rows: Batch, row: int, at: int) -> Batch:
    """Return one key's rows with another one at a place. O(n)."""
    columns = {}
    for name, column in held.columns.items():
        new = rows.columns[name].take(slice(row, row + 1))
        valid = None
        if column.valid is not None or new.valid is not None:
            valid = np.insert(mask_of([column], False, len(held.times)), at, mask_of([new], False, 1))
        columns[name] = Column(np.insert(column.values, at, new.values), valid, column.type)
    return Batch(np.insert(held.keys, at, 0), np.insert(held.times, at, rows.times[row]), columns)
