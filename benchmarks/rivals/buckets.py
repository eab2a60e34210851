"""Buckets: one state for each open window of each key. Every row goes into every window that it falls in.

Nothing is shared between windows, so that a row costs as many combines as it has windows; rows may come in any order.
Where the order of rows matters to an aggregation, or a state has no fixed size, a bucket keeps its rows instead (lifted
to states, with their times) and folds them in the order of time whenever it is emitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from muntin.aggregators.choose import Chosen
from muntin.aggregators.states import States
from muntin.durations import BEFORE_TIME
from muntin.errors import InvariantError
from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    combine,
    emit,
    emit_empty,
    index,
    inlined,
    kernel,
    lift,
    load,
    store,
)
from muntin.query.plan import Plan
from muntin.streams.decisions import NOTHING
from muntin.streams.strategy import Batch
from muntin.tables.answers import Answers
from muntin.types import OBJECT, Array
from muntin.windows.kinds.context_free import ContextFree
from muntin.windows.kinds.cumulative import Cumulative
from muntin.windows.kinds.session import Session
from muntin.windows.kinds.sliding import Sliding
from rivals.common import Part, Parted, early_without_rows
from rivals.fused import Fused
from rivals.joined import COUNT as ROWS
from rivals.joined import INTO, LAST, Sessions
from rivals.joined import KEY as SESSION_KEY
from rivals.joined import REVISION as SESSION_REVISION
from rivals.joined import START as SESSION_START
from rivals.numbered import Numbered, numbered

DEFINITION, KEY, NUMBER, START, END, LAST_COUNT, REVISION = range(7)
"""The columns of the table of buckets: LAST_COUNT is the number of rows when the bucket was last emitted, or -1."""
UNUSED = (0, 0, 0, 0, 0, -1, -1)

# ---------------------------------------------------------------- kernels


@inlined
def first_place(places: Ints, definition: int, key: int, number: int) -> int:
    """Return where in the hash table the search for a window begins."""
    mixed = ((number & 0x3FFFFFFF) * 0x1E3779B1) ^ ((key & 0x3FFFFFFF) * 0x05EBCA77) ^ (definition * 0x02B2AE3D)
    return (mixed ^ (mixed >> 21)) & (len(places) - 1)


@kernel
def hash_buckets(table: Ints, places: Ints, count: int) -> None:
    """Put the buckets into an empty hash table."""
    for at in range(count):
        place = first_place(places, table[at, 0], table[at, 1], table[at, 2])
        while places[index(place)] >= 0:
            place = (place + 1) & (len(places) - 1)
        places[index(place)] = at


@inlined
def bucket_of(table: Ints, places: Ints, marks: Ints, definition: int, key: int, number: int) -> int:
    """Return the bucket of a window, opened if there is none. `places` is a hash table with open addressing."""
    last = len(places) - 1
    place = first_place(places, definition, key, number)
    at: int = places[index(place)]
    while at >= 0 and (table[at, 2] != number or table[at, 1] != key or table[at, 0] != definition):
        place = (place + 1) & last
        at = places[index(place)]
    if at < 0:
        at = marks[0]
        marks[0] = at + 1
        places[index(place)] = at
        table[at, 0] = definition
        table[at, 1] = key
        table[at, 2] = number
    return at


@kernel
def open_buckets(table: Ints, places: Ints, marks: Ints, definition: int, keys: Ints, first: Ints, last: Ints) -> None:
    """Open buckets without rows, where there are none."""
    for i in range(len(keys)):
        for number in range(first[i], last[i]):
            bucket_of(table, places, marks, definition, keys[i], number)


@kernel
def fill_buckets(
    table: Ints,
    places: Ints,
    marks: Ints,
    definition: int,
    counts: Ints,
    slots: Slots,
    columns: Columns,
    times: Ints,
    keys: Ints,
    first: Ints,
    last: Ints,
    begin: int,
) -> int:
    """Combine each row into the buckets [first, last); return the row for which there was no room, or their number."""
    near = -1  # the bucket of the row before: where windows do not overlap, the next row is often in it too
    for row in range(begin, len(keys)):
        if first[row] >= last[row]:
            continue
        if marks[0] + last[row] - first[row] > len(table):
            return row
        state = lift(columns, times, row)
        for number in range(first[row], last[row]):
            if near >= 0 and table[near, 2] == number and table[near, 1] == keys[row]:
                at = near
            else:
                at = bucket_of(table, places, marks, definition, keys[row], number)
                near = at
            if counts[at] == 0:
                store(slots, at, state)
            else:
                store(slots, at, combine(load(slots, at), state))
            counts[at] += 1
    return len(keys)


@kernel
def keep_rows(
    table: Ints,
    places: Ints,
    marks: Ints,
    definition: int,
    counts: Ints,
    slots: Slots,
    entries: Ints,
    columns: Columns,
    times: Ints,
    keys: Ints,
    first: Ints,
    last: Ints,
    begin: int,
) -> int:
    """Give each bucket in [first, last) its own copy of a row; return as `fill_buckets` does. marks[1] counts rows."""
    for row in range(begin, len(keys)):
        if first[row] >= last[row]:
            continue
        if marks[0] + last[row] - first[row] > len(table):
            return row
        state = lift(columns, times, row)
        for number in range(first[row], last[row]):
            at = bucket_of(table, places, marks, definition, keys[row], number)
            counts[at] += 1
            store(slots, marks[1], state)
            entries[marks[1], 0] = at
            entries[marks[1], 1] = times[row]
            marks[1] += 1
    return len(keys)


@kernel
def fill_sessions(slots: Slots, columns: Columns, times: Ints, into: Ints, merged: Ints) -> None:
    """Combine each row into its session, after the one that it joins to it."""
    for row in range(len(into)):
        at = into[row]
        if at < 0:
            continue
        if merged[row] == -2:
            store(slots, at, lift(columns, times, row))
            continue
        if merged[row] >= 0:
            store(slots, at, combine(load(slots, at), load(slots, merged[row])))
        store(slots, at, combine(load(slots, at), lift(columns, times, row)))


@kernel
def keep_session_rows(slots: Slots, columns: Columns, times: Ints, into: Ints, begin: int) -> None:
    """Append the rows that a session took."""
    at = begin
    for row in range(len(into)):
        if into[row] >= 0:
            store(slots, at, lift(columns, times, row))
            at += 1


@kernel
def answer_buckets(slots: Slots, counts: Ints, buckets: Ints, outputs: Outputs) -> None:
    """Lower the states of some buckets."""
    for i in range(len(buckets)):
        if counts[i] == 0:
            emit_empty(outputs, i)
        else:
            emit(outputs, i, load(slots, buckets[i]))


@kernel
def fold_rows(slots: Slots, order: Ints, ends: Ints, room: Slots, outputs: Outputs) -> None:
    """Fold runs of rows, neighbours first: where states grow, each is copied a logarithmic number of times."""
    begin = 0
    for i in range(len(ends)):
        count = ends[i] - begin
        if count == 0:
            emit_empty(outputs, i)
            continue
        for j in range(count):
            store(room, j, load(slots, order[begin + j]))
        while count > 1:
            for j in range(count // 2):
                store(room, j, combine(load(room, 2 * j), load(room, 2 * j + 1)))
            if count % 2 == 1:
                store(room, count // 2, load(room, count - 1))
            count = (count + 1) // 2
        emit(outputs, i, load(room, 0))
        begin = ends[i]


TIME_KERNELS = (first_place, bucket_of, hash_buckets, open_buckets, fill_buckets, answer_buckets)
TIME_ROW_KERNELS = (first_place, bucket_of, hash_buckets, open_buckets, keep_rows, fold_rows)
SESSION_KERNELS = (fill_sessions, answer_buckets)
SESSION_ROW_KERNELS = (keep_session_rows, fold_rows)

# ---------------------------------------------------------------- the states or rows of buckets


class _Contents:
    """What buckets hold for each binding: a state each, or the states of their rows with bucket and time."""

    def __init__(self, fused: Fused, kernels: tuple[Any, ...], row_kernels: tuple[Any, ...]) -> None:
        self.fused = fused
        self.keeps_rows = not (fused.commutative and fused.fixed)
        chosen = row_kernels if self.keeps_rows else kernels
        entries = [each.__name__ for each in chosen if each not in (first_place, bucket_of)]
        self.modules = [binding.kernels(chosen, *entries) for binding in fused.bindings]
        self.slots = [binding.slots(0) for binding in fused.bindings]
        self.entries = np.zeros((0, 2), np.int64)
        self.size = 0
        """How many states there are: as many as buckets, or as rows."""

    def reserve(self, count: int) -> None:
        """Make room for this number of states in all."""
        if count > len(self.slots[0]):
            room = max(count, 2 * len(self.slots[0]), 64)
            self.slots = [_longer(each, room) for each in self.slots]
            if self.keeps_rows:
                self.entries = _longer(self.entries, room)

    def answer(self, buckets: Array, counts: Array, capacity: int) -> list[tuple[Array, ...]]:
        """Lower some buckets, given with their numbers of rows."""
        outputs = self.fused.outputs(len(buckets))
        if not self.keeps_rows:
            for module, slots, out in zip(self.modules, self.slots, outputs, strict=True):
                module.answer_buckets(slots, counts, buckets, out)
            return outputs
        rank = np.full(capacity, -1)
        rank[buckets] = np.arange(len(buckets))
        ranks = rank[self.entries[: self.size, 0]]
        mine = np.flatnonzero(ranks >= 0)
        order = mine[np.lexsort((self.entries[mine, 1], ranks[mine]))]  # stable: equal times stay as they came
        ends = np.cumsum(np.bincount(ranks[mine], minlength=len(buckets))).astype(np.int64)
        longest = int(np.diff(ends, prepend=0).max()) if len(ends) else 0
        for binding, module, slots, out in zip(self.fused.bindings, self.modules, self.slots, outputs, strict=True):
            module.fold_rows(slots, order, ends, binding.slots(longest), out)
        return outputs

    def keep(self, buckets: Array, capacity: int) -> None:
        """Keep these buckets only: the first of them becomes number 0."""
        if not self.keeps_rows:
            self.slots = [slots[buckets] for slots in self.slots]
            self.size = len(buckets)
            return
        number = np.full(capacity, -1)
        number[buckets] = np.arange(len(buckets))
        renamed = number[self.entries[: self.size, 0]]
        kept = np.flatnonzero(renamed >= 0)
        self.slots = [slots[kept] for slots in self.slots]
        self.entries = self.entries[kept]
        self.entries[:, 0] = renamed[kept]
        self.size = len(kept)

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.slots) + self.entries.nbytes

    def save(self) -> dict[str, Array]:
        """Return the state as arrays."""
        states = {f"slots{i}": slots[: self.size].copy() for i, slots in enumerate(self.slots)}
        return {**states, "entries": self.entries[: self.size].ravel()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        bindings = self.fused.bindings
        self.slots = [States(binding).revived(state[f"slots{i}"].copy()) for i, binding in enumerate(bindings)]
        self.entries = state["entries"].reshape(-1, 2).copy()
        self.size = len(self.slots[0])


def _longer(array: Array, count: int) -> Array:
    more = np.zeros((count, *array.shape[1:]), array.dtype) if array.dtype != OBJECT else np.full(count, None, OBJECT)
    more[: len(array)] = array
    return more


# ---------------------------------------------------------------- windows whose edges are known


class _TimeBuckets:
    """The buckets of all context-free windows by time, found by definition, key and number in a hash table."""

    def __init__(self, plan: Plan, windows: Mapping[int, ContextFree], fused: Fused) -> None:
        self.plan = plan
        self.ids = np.array(list(windows), np.int64)
        self.definitions = list(windows.values())
        self.windows: list[Numbered] = [numbered(each) for each in self.definitions]
        self.contents = _Contents(fused, TIME_KERNELS, TIME_ROW_KERNELS)
        self.marks = np.zeros(2, np.int64)
        self.watermark = BEFORE_TIME
        self.born = [np.zeros(0, np.int64) for _ in windows]
        """The first window of each key, where windows without rows are emitted too."""
        self._hold(np.zeros((0, len(UNUSED)), np.int64), [np.zeros(0, np.int64) for _ in fused.bindings])

    def _hold(self, table: Array, counts: list[Array]) -> None:
        """Hold these buckets and no others, with room for as many again."""
        self.marks[0] = self.named = len(table)
        self.table, self.counts = table, counts
        self._grow(0)

    def _grow(self, more: int) -> None:
        size = int(self.marks[0])
        capacity = max(2 * size, size + more, 64)
        table = np.tile(np.array(UNUSED, np.int64), (capacity, 1))
        table[:size] = self.table[:size]
        self.table = table
        self.counts = [_longer(each[:size], capacity) for each in self.counts]
        if not self.contents.keeps_rows:
            self.contents.reserve(capacity)
        self.places = np.full(1 << (2 * capacity - 1).bit_length(), -1)
        self.contents.modules[0].hash_buckets(self.table, self.places, size)

    # ------------------------------------------------------------ rows in

    def take(self, batch: Batch, order: Array | slice, watermark: int) -> Array:
        """Combine rows into their buckets; return which of them some window took. O(windows of a row) each."""
        keys, times = batch.keys[order], batch.times[order]
        inputs = self.contents.fused.inputs(batch.columns, order)
        taken = np.zeros(len(times), np.bool_)
        for d, windows in enumerate(self.windows):
            first, last = windows.holding(times)
            first = np.maximum(first, _first_open(windows, watermark - self.plan.lateness))
            held = first < last
            taken |= held
            self._fill(d, inputs, times, keys, first, last)
            if self.plan.emit_empty:
                self._note_first(d, keys[held], first[held])
        return taken

    def _fill(
        self, d: int, inputs: list[tuple[Array, ...]], times: Array, keys: Array, first: Array, last: Array
    ) -> None:
        contents = self.contents
        if contents.keeps_rows:
            contents.reserve(contents.size + int(np.maximum(last - first, 0).sum()))
        for b, columns in enumerate(inputs):
            row = 0
            self.marks[1] = contents.size
            while True:
                buckets = (self.table, self.places, self.marks, d, self.counts[b], contents.slots[b])
                rows = (columns, times, keys, first, last, row)
                if contents.keeps_rows:
                    row = contents.modules[b].keep_rows(*buckets, contents.entries, *rows)
                else:
                    row = contents.modules[b].fill_buckets(*buckets, *rows)
                if row == len(keys):
                    break
                self._grow(int(last[row] - first[row]))
        contents.size = int(self.marks[1 if contents.keeps_rows else 0])

    def _note_first(self, d: int, keys: Array, first: Array) -> None:
        more = max(0, int(keys.max()) + 1 - len(self.born[d])) if len(keys) else 0
        self.born[d] = np.concatenate((self.born[d], np.full(more, UNBORN)))
        np.minimum.at(self.born[d], keys, first)

    # ------------------------------------------------------------ answers out

    def emit(self, watermark: int, horizon: int, *, early: bool) -> list[Answers]:
        """Lower the buckets that are due or have changed, and drop the final ones. O(open buckets)."""
        if self.plan.emit_empty:
            self._open_empty(horizon if early else min(horizon, watermark))
        self._name()
        size = int(self.marks[0])
        table, counts = self.table[:size], self.counts[0][:size]
        final = table[:, END] <= self.watermark - self.plan.lateness
        chosen = (counts != table[:, LAST_COUNT]) & ~final
        if not early:
            chosen &= table[:, END] <= watermark
        answers = self._answers(np.flatnonzero(chosen))
        self.watermark = max(watermark, self.watermark)
        gone = table[:, END] <= self.watermark - self.plan.lateness
        if 2 * int(gone.sum()) >= max(size, 1):
            kept = np.flatnonzero(~gone)
            self.contents.keep(kept, size)
            self._hold(table[kept], [each[kept] for each in self.counts])
        return answers

    def _answers(self, buckets: Array) -> list[Answers]:
        if not len(buckets):
            return []
        counts = self.counts[0][buckets]
        outputs = self.contents.answer(buckets, counts, int(self.marks[0]))
        self.table[buckets, LAST_COUNT] = counts
        self.table[buckets, REVISION] += 1
        chosen = self.table[buckets]
        arrays = self.contents.fused.arrays(outputs)
        retracted = np.zeros(len(buckets), np.bool_)
        ids = self.ids[chosen[:, DEFINITION]]
        return [Answers(chosen[:, KEY], ids, chosen[:, START], chosen[:, END], arrays, chosen[:, REVISION], retracted)]

    def _open_empty(self, until: int) -> None:
        """Open buckets for the windows of each key that have no row and end by a time."""
        for d, windows in enumerate(self.windows):
            if not isinstance(self.definitions[d], Sliding | Cumulative):
                continue  # of one's own windows nobody knows where they would be
            keys = np.flatnonzero(self.born[d] < UNBORN)
            first_open = _first_open(windows, self.watermark - self.plan.lateness)
            first = np.maximum(self.born[d][keys], first_open)
            last = np.full(len(keys), max(windows.after(until), first_open))
            self._grow(int(np.maximum(last - first, 0).sum()))
            self.contents.modules[0].open_buckets(self.table, self.places, self.marks, d, keys, first, last)
        if not self.contents.keeps_rows:
            self.contents.size = int(self.marks[0])

    def _name(self) -> None:
        """Find where the windows of new buckets begin and end."""
        size = int(self.marks[0])
        fresh = np.arange(self.named, size)
        for d, windows in enumerate(self.windows):
            mine = fresh[self.table[fresh, DEFINITION] == d]
            if len(mine):
                self.table[mine, START], self.table[mine, END] = windows.spans(self.table[mine, NUMBER])
        self.named = size

    def held_keys(self) -> Array:
        """Return the keys with a bucket, or with windows without rows to come."""
        self._name()
        table = self.table[: self.marks[0]]
        kept = table[table[:, END] > self.watermark - self.plan.lateness, KEY]
        return np.unique(np.concatenate((kept, *(np.flatnonzero(each < UNBORN) for each in self.born))))

    # ------------------------------------------------------------ looked at from outside

    def metrics(self) -> dict[str, int]:
        """Return the numbers of buckets and rows, and bytes."""
        self._name()
        size = int(self.marks[0])
        gone = int((self.table[:size, END] <= self.watermark - self.plan.lateness).sum())
        kept = self.contents.size if self.contents.keeps_rows else 0
        held = (self.table, self.places, *self.counts, *self.born)
        return {
            "buckets": size - gone,
            "kept": kept,
            "bytes": self.contents.nbytes + sum(each.nbytes for each in held),
        }

    def save(self) -> dict[str, Array]:
        """Return the state as arrays."""
        self._name()
        size = int(self.marks[0])
        return {
            "table": self.table[:size].flatten(),
            "watermark": np.array([self.watermark], np.int64),
            **{f"counts{b}": each[:size].copy() for b, each in enumerate(self.counts)},
            **{f"born{d}": each.copy() for d, each in enumerate(self.born)},
            **{f"known{d}": np.array(each.known, np.int64) for d, each in enumerate(self.windows)},
            **self.contents.save(),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        self.watermark = int(state["watermark"][0])
        self.born = [state[f"born{d}"].copy() for d in range(len(self.windows))]
        for d, definition in enumerate(self.definitions):
            self.windows[d] = numbered(definition, tuple(state[f"known{d}"].tolist()))
        self.contents.load(state)
        table = state["table"].reshape(-1, len(UNUSED)).copy()
        self._hold(table, [state[f"counts{b}"].copy() for b in range(len(self.counts))])

    def check(self) -> None:
        """Require that each bucket is found where it is sought, and has the rows that are counted."""
        self._name()
        size = int(self.marks[0])
        names = self.table[:size, : NUMBER + 1]
        if len(np.unique(names, axis=0)) != size:
            raise InvariantError("a window has two buckets")
        if sorted(self.places[self.places >= 0]) != list(range(size)):
            raise InvariantError("the hash table does not hold each bucket once")
        if any((each[:size] != self.counts[0][:size]).any() for each in self.counts):
            raise InvariantError("the bindings do not agree in how many rows a bucket has")
        if self.contents.keeps_rows:
            rows = np.bincount(self.contents.entries[: self.contents.size, 0], minlength=size)
            if (rows != self.counts[0][:size]).any():
                raise InvariantError("a bucket does not hold the rows that were counted")


UNBORN = 2**63 - 1


def _first_open(windows: Numbered, time: int) -> int:
    """Return the first window that ends after a time, as far down as numbers go."""
    return max(windows.after(time), -(2**63))


# ---------------------------------------------------------------- sessions


class _SessionBuckets:
    """The buckets of one definition's sessions: two become one where a row joins them."""

    def __init__(self, plan: Plan, window_id: int, definition: Session, fused: Fused) -> None:
        self.window_id = window_id
        self.sessions = Sessions(definition.gap, plan.lateness)
        self.contents = _Contents(fused, SESSION_KERNELS, SESSION_ROW_KERNELS)

    def take(self, batch: Batch, order: Array | slice, watermark: int) -> Array:
        """Combine rows into sessions; return which of them were not too late."""
        keys, times = batch.keys[order], batch.times[order]
        joined = self.sessions.join(keys, times, watermark)
        contents, taken = self.contents, joined.into >= 0
        inputs = contents.fused.inputs(batch.columns, order)
        if not contents.keeps_rows:
            contents.size = len(self.sessions.table)
            contents.reserve(contents.size)
            for module, slots, columns in zip(contents.modules, contents.slots, inputs, strict=True):
                module.fill_sessions(slots, columns, times, joined.into, joined.merged)
            return taken
        begin, contents.size = contents.size, contents.size + int(taken.sum())
        contents.reserve(contents.size)
        contents.entries[begin : contents.size, 0] = joined.into[taken]
        contents.entries[begin : contents.size, 1] = times[taken]
        for module, slots, columns in zip(contents.modules, contents.slots, inputs, strict=True):
            module.keep_session_rows(slots, columns, times, joined.into, begin)
        self._rename()
        return taken

    def _rename(self) -> None:
        """Give the rows of sessions that were merged to those that they are in now."""
        into = self.sessions.table[:, INTO]
        final = np.where(into < 0, np.arange(len(into)), into)
        while (final[final] != final).any():
            final = final[final]
        entries = self.contents.entries[: self.contents.size]
        entries[:, 0] = final[entries[:, 0]]

    def emit(self, watermark: int, horizon: int, *, early: bool) -> list[Answers]:
        """Lower the sessions that are due or have changed, and take back those that are no more."""
        due = self.sessions.due(watermark, early=early)
        answers = []
        if len(due.retracted):
            key, start, end, revision = due.retracted.T
            ids, retracted = np.full(len(key), self.window_id), np.ones(len(key), np.bool_)
            nothing = self.contents.fused.nothing(len(key))
            answers.append(Answers(key, ids, start, end, nothing, revision, retracted))
        if len(due.sessions):
            ended = self.sessions.table[due.sessions]
            outputs = self.contents.answer(due.sessions, ended[:, ROWS].copy(), len(self.sessions.table))
            ids, retracted = np.full(len(ended), self.window_id), np.zeros(len(ended), np.bool_)
            spans = (ended[:, SESSION_START], ended[:, LAST] + self.sessions.gap)
            arrays = self.contents.fused.arrays(outputs)
            answers.append(Answers(ended[:, SESSION_KEY], ids, *spans, arrays, ended[:, SESSION_REVISION], retracted))
        size = len(self.sessions.table)
        kept = self.sessions.finalize(watermark)
        if kept is not None:
            self.contents.keep(kept, size)
        return answers

    def held_keys(self) -> Array:
        """Return the keys with a session, or where a final one keeps rows out."""
        return self.sessions.held_keys()

    def metrics(self) -> dict[str, int]:
        """Return the numbers of buckets, merges and rows, and bytes."""
        alive = int((self.sessions.table[:, INTO] < 0).sum())
        kept = self.contents.size if self.contents.keeps_rows else 0
        size = self.contents.nbytes + self.sessions.table.nbytes
        return {"buckets": alive, "merges": self.sessions.merges, "kept": kept, "bytes": size}

    def save(self) -> dict[str, Array]:
        """Return the state as arrays."""
        return {**self.sessions.save(), **self.contents.save()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        self.sessions.load(state)
        self.contents.load(state)

    def check(self) -> None:
        """Require that sessions are apart and have the rows that are counted."""
        self.sessions.check()
        if self.contents.keeps_rows:
            table = self.sessions.table
            rows = np.bincount(self.contents.entries[: self.contents.size, 0], minlength=len(table))
            if (rows != np.where(table[:, INTO] < 0, table[:, ROWS], 0)).any():
                raise InvariantError("a session does not hold the rows that were counted")


# ---------------------------------------------------------------- the strategy


class Buckets(Parted):
    """A state, or a copy of its rows, for each open window and key; every row goes into every window it falls in.

    For context-free windows by time and sessions; rows in any order; any aggregation. O(windows of a row) combines a
    row, O(open windows) to see which are due, O(1) to answer one (O(its rows) where rows are kept). Of a key with
    sessions the end of the last final one is remembered for ever, since no row may join it.

    >>> import numpy as np
    >>> from muntin import agg, window
    >>> from muntin.durations import BEFORE_TIME
    >>> from muntin.query.plan import Plan
    >>> from muntin.streams.strategy import Batch
    >>> from muntin.types import INT64
    >>> plan = Plan({0: window.tumbling(5)}, {"n": agg.count()}, {}, INT64)
    >>> strategy = Buckets(plan)
    >>> strategy.take(Batch(np.array([0, 0, 0]), np.array([1, 7, 5]), {}), BEFORE_TIME).tolist()
    [True, True, True]
    >>> [(each.end.tolist(), each.aggregates["n"].to_pylist()) for each in strategy.emit(10, 10)]
    [([5, 10], [1, 2])]
    """

    keeps = NOTHING

    def merged_by(self) -> Iterator[Chosen]:
        """Yield that nothing is merged, for all aggregates."""
        why = "each window has a state of its own, into which each of its rows is combined"
        yield Chosen(tuple(self.plan.aggregates), "none", why)

    def _make_parts(self, plan: Plan) -> list[Part]:
        fused = Fused(plan)
        free = {i: each for i, each in plan.windows.items() if isinstance(each, ContextFree)}
        sessions = {i: each for i, each in plan.windows.items() if isinstance(each, Session)}
        parts: list[Part] = [_TimeBuckets(plan, free, fused)] if free else []
        return parts + [_SessionBuckets(plan, i, each, fused) for i, each in sessions.items()]

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why this strategy cannot answer a plan, or None where it can."""
        for each in plan.windows.values():
            if not isinstance(each, ContextFree | Session):
                return (
                    f"buckets are windows whose edges are times known when a row comes, and {each!r} is none; "
                    "take the strategy 'slices'"
                )
        return early_without_rows(plan)
