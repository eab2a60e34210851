"""Holistic aggregates of windows that move: a multiset of values for each key, which follows its windows.

A definition has a multiset for each key and group of aggregates over the same values. It holds the values of the rows
[FIRST, LAST) of the key, those of the window that was answered last. To answer the next one, values are added and
removed at both ends:

    rows     . . a b c d e f g . .        [b, f) -> [d, g): remove b and c, add f
                 ^-------^

So rows in order take O(log n) each, and a late row walks back over the windows that hold it, which are answered again
anyway. A window that shares less with the last one than it has is read as a whole.

Multisets are not saved: a restored or copied store has none, and builds them from the rows when it first answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.aggregators.distinct_counts import write_answers
from muntin.arrays.results import Raw
from muntin.arrays.runner import results_by_name
from muntin.columns import Column, read_only
from muntin.errors import InvariantError
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import standalone
from muntin.kernels.vocabulary import (
    Ints,
    Outputs,
    emit,
    emit_empty,
    index,
    inlined,
    kernel,
    replaceable,
    replaces,
    spread,
)
from muntin.streams.rows import multisets, tree
from muntin.streams.rows.counting import rows_up_to
from muntin.streams.rows.multisets import (
    ARENA,
    CHANGES,
    COUNT,
    DISTINCT,
    ENTRY,
    FIRST,
    KNOWN,
    LAST,
    SET,
    Multisets,
    add_value,
    clear,
    fits,
    reach,
    remove_value,
    value_at,
    with_room,
    with_sets,
)
from muntin.streams.rows.numbering import (
    GREATEST,
    LEAST,
    NAN,
    ONE_ZERO,
    SKIPS_NAN,
    TOP,
    TURNED,
    Numbering,
    Numbers,
    Tokens,
    numbering_for,
)
from muntin.streams.rows.tree import (
    BASE,
    HI,
    KEY,
    LO,
    NEXT,
    NODE,
    NONE,
    ROWS,
    Tree,
    as_start,
    at_of,
    at_rank,
    leaf_of,
    rank_of,
)
from muntin.streams.sorted_runs.runs import Values, values_together
from muntin.types import Array, ColumnType

if TYPE_CHECKING:
    from muntin.streams.rows.store import RowStore

AT, OPEN, FRONT, BACK, WANTED = range(5)
"""The cursor: the next window or row; the key whose multiset is moving, or NONE; the positions between which its rows
are; how many values need room."""


class Source(NamedTuple):
    """The values of a column by place, and which of them count."""

    bits: Any
    valid: Any
    where: Any
    where_valid: Any
    """Of these three, empty ones are true everywhere."""
    order: Ints


class View(NamedTuple):
    """The multiset that is moving, as a sorted window."""

    held: Multisets
    at: Ints
    """Where its numbers are."""
    word: Ints
    shown: Any
    """The same bytes, as a number of the column's type."""
    order: Ints


# ---------------------------------------------------------------- one row


@inlined
def value_of_row(source: Source, place: int) -> int:
    """Return a value as an integer of the same order."""
    order = source.order
    word = np.int64(source.bits[index(place)])
    value = word ^ ((word >> 63) & order[TURNED]) ^ order[TOP]
    if value < order[LEAST] or value > order[GREATEST]:
        return int(order[NAN])
    return 0 if value == -1 and order[ONE_ZERO] > 0 else value


@inlined
def takes(source: Source, place: int, value: int) -> bool:
    """Return whether the value of a row counts."""
    if len(source.valid) > 0 and not source.valid[index(place)]:
        return False
    if len(source.where) > 0 and not source.where[index(place)]:
        return False
    if len(source.where_valid) > 0 and not source.where_valid[index(place)]:
        return False
    return not (source.order[SKIPS_NAN] > 0 and value == source.order[NAN])


# ---------------------------------------------------------------- windows that move


@kernel
def change_rows(tree: Tree, held: Multisets, source: Source, line: int, where: int, count: int, adds: bool) -> None:
    """Add the values of `count` rows from a position on, or remove them. O(log n) each."""
    leaf, at = leaf_of(where), at_of(where)
    while count > 0:
        base = tree.nodes[index(leaf * NODE + BASE)]
        stop = min(tree.nodes[index(leaf * NODE + HI)], at + count)
        for place in range(base + at, base + stop):
            value = value_of_row(source, place)
            if takes(source, place, value):
                if adds:
                    add_value(held, line, value)
                else:
                    remove_value(held, line, value)
        count -= stop - at
        if count > 0:
            leaf = tree.nodes[index(leaf * NODE + NEXT)]
            at = tree.nodes[index(leaf * NODE + LO)]


@inlined
def rows_between(tree: Tree, begin: int, rank: int, end: int) -> int:
    """Return how many rows are from a position of a rank to another one. O(1) within a leaf or to the next one."""
    leaf = leaf_of(begin)
    if leaf == leaf_of(end):
        return at_of(end) - at_of(begin)
    if tree.nodes[index(leaf * NODE + NEXT)] == leaf_of(end):
        rest = tree.nodes[index(leaf * NODE + HI)] - at_of(begin)
        return int(rest + at_of(end) - tree.nodes[index(leaf_of(end) * NODE + LO)])
    return rank_of(tree, end) - rank


@kernel
def open_key(tree: Tree, held: Multisets, key: int, now: Ints) -> None:
    """Set the cursor to the rows that the multiset of a key has the values of."""
    sets, line = held.sets, key * SET
    if sets[line + KNOWN] == 0:
        clear(held, line)
    sets[line + KNOWN] = 0  # until it is closed: what fails in between leaves nothing that is wrong
    now[OPEN] = key
    now[FRONT] = now[BACK] = NONE
    if sets[line + LAST] > sets[line + FIRST]:
        now[FRONT] = as_start(tree, at_rank(tree, key, sets[line + FIRST]))
        now[BACK] = at_rank(tree, key, sets[line + LAST] - 1) + 1


@kernel
def close_key(held: Multisets, now: Ints) -> None:
    """Note that the multiset of the cursor's key has the values that it says."""
    if now[OPEN] != NONE:
        held.sets[now[OPEN] * SET + KNOWN] = 1
    now[OPEN] = NONE


@kernel
def move_to(tree: Tree, held: Multisets, source: Source, first: int, last: int, now: Ints) -> bool:
    """Let the open multiset have the values of the rows between two positions; return whether there was room.

    O(log n) for each row that enters or leaves, or for each row of the window, whichever is less.
    """
    sets, line = held.sets, now[OPEN] * SET
    if now[FRONT] != NONE:
        begin, end = sets[index(line + FIRST)], sets[index(line + LAST)]
        front = rows_between(tree, now[FRONT], begin, first)
        back = rows_between(tree, now[BACK], end, last)
        if abs(front) + abs(back) <= end - begin + back - front:
            now[WANTED] = max(back, 0) + max(-front, 0)
            if not fits(held, now[WANTED]):
                return False
            if back > 0:
                change_rows(tree, held, source, line, now[BACK], back, True)
            if front < 0:
                change_rows(tree, held, source, line, first, -front, True)
            if front > 0:
                change_rows(tree, held, source, line, now[FRONT], front, False)
            if back < 0:
                change_rows(tree, held, source, line, last, -back, False)
            sets[index(line + FIRST)] += front
            sets[index(line + LAST)] += back
            now[FRONT], now[BACK] = first, last
            return True
    begin, end = rank_of(tree, first), rank_of(tree, last)
    now[WANTED] = end - begin
    if not fits(held, end - begin):
        return False
    clear(held, line)
    change_rows(tree, held, source, line, first, end - begin, True)
    sets[line + FIRST], sets[line + LAST] = begin, end
    now[FRONT], now[BACK] = first, last
    return True


@kernel
def go_to(tree: Tree, held: Multisets, source: Source, key: int, first: int, last: int, now: Ints) -> bool:
    """Let the multiset of a key have the values of the rows between two positions; return whether there was room."""
    if now[OPEN] != key:
        close_key(held, now)
        open_key(tree, held, key, now)
    return move_to(tree, held, source, first, last, now)


@kernel
def count_windows(
    tree: Tree, held: Multisets, source: Source, keys: Ints, first: Ints, last: Ints, now: Ints, counts: Ints
) -> bool:
    """Write how many distinct values windows have, from the cursor on; return whether there was room."""
    while now[AT] < len(keys):
        i = now[AT]
        counts[i] = 0
        if first[i] != NONE:
            if not go_to(tree, held, source, keys[i], first[i], last[i], now):
                return False
            counts[i] = held.sets[keys[i] * SET + DISTINCT]
        now[AT] = i + 1
    close_key(held, now)
    return True


@replaceable
def size(view: View) -> Any:
    """Return the number of values in the window."""
    return int(view.held.sets[index(view.at[0] + COUNT)])


@replaceable
def nth(view: View, rank: int) -> Any:
    """Return the value with `rank` values before it in the sorted window."""
    value = value_at(view.held, view.at[0], rank)
    view.word[0] = value ^ ((value >> 63) & view.order[TURNED]) ^ view.order[TOP]
    return view.shown[0]


@kernel
def answer_moving(
    tree: Tree,
    held: Multisets,
    source: Source,
    keys: Ints,
    first: Ints,
    last: Ints,
    now: Ints,
    view: View,
    outputs: Outputs,
) -> bool:
    """Answer windows from the cursor on; return whether there was room."""
    whole = spread(view)
    while now[AT] < len(keys):
        i = now[AT]
        view.at[0] = keys[i] * SET
        if first[i] == NONE:
            emit_empty(outputs, i)
        else:
            if not go_to(tree, held, source, keys[i], first[i], last[i], now):
                return False
            if held.sets[index(keys[i] * SET + COUNT)] == 0:
                emit_empty(outputs, i)
            else:
                emit(outputs, i, whole)
        now[AT] = i + 1
    close_key(held, now)
    return True


# ---------------------------------------------------------------- rows that come and go


@kernel
def follow_rows(tree: Tree, held: Multisets, source: Source, keys: Ints, times: Ints, now: Ints) -> bool:
    """Let multisets have the values of new rows, in order, that lie among theirs; return whether there was room.

    O(log n) for each late row, and for each key.
    """
    row = now[AT]
    while row < len(keys):
        key = keys[row]
        line = key * SET
        after = row + 1
        while after < len(keys) and keys[after] == key and times[after] == times[row]:
            after += 1
        rank = rows_up_to(tree, key, times[row]) - (after - row)
        inside = held.sets[line + KNOWN] > 0 and rank < held.sets[line + LAST]
        while inside and row < after:
            if rank > held.sets[line + FIRST]:
                now[AT], now[WANTED] = row, 1
                if not fits(held, 1):
                    return False
                change_rows(tree, held, source, line, as_start(tree, at_rank(tree, key, rank)), 1, True)
            else:
                held.sets[line + FIRST] += 1
            held.sets[line + LAST] += 1
            row, rank = row + 1, rank + 1
            inside = rank < held.sets[line + LAST]
        row = after
        while not inside and row < len(keys) and keys[row] == key:
            row += 1  # later rows are behind, too
    return True


@kernel
def leave_rows(tree: Tree, held: Multisets, source: Source, keys: Ints, counts: Ints) -> None:
    """Take the values of the first rows of keys, which are about to be evicted, out of multisets. O(log n) each."""
    for i in range(len(keys)):
        key = keys[i]
        line = key * SET
        if line >= len(held.sets) or held.sets[line + KNOWN] == 0:
            continue
        count = min(counts[i], tree.keys[key * KEY + ROWS])
        first = held.sets[line + FIRST]
        if count >= held.sets[line + LAST]:
            clear(held, line)
            continue
        if count > first:
            change_rows(tree, held, source, line, as_start(tree, at_rank(tree, key, first)), count - first, False)
            held.sets[line + FIRST] = count
        held.sets[line + FIRST] -= count
        held.sets[line + LAST] -= count


WITHIN = (
    *tree.POSITIONS,
    rows_up_to,
    *ARENA,
    *CHANGES,
    reach,
    value_of_row,
    takes,
    change_rows,
    rows_between,
    open_key,
    move_to,
)
ANSWERING = (*WITHIN, close_key, go_to, value_at, size, nth, answer_moving)
FOLLOWING = (count_windows, follow_rows, leave_rows, go_to, close_key, value_at)


@cache
def following(compiled: bool) -> Any:
    """Return the kernels that see no aggregation, compiled once for all."""
    return kernel_cache.load(standalone(*FOLLOWING, within=WITHIN, counted=False), compiled=compiled)


# ---------------------------------------------------------------- windows answered as plain Python


@dataclass
class _Read:
    """A window as `lower` reads it in plain Python."""

    count: int
    read: Callable[[int], Any]


@replaces(size)
def count_of(view: Any) -> Any:
    """Return the number of values in the window."""
    return view.count


@replaces(nth)
def read_nth(view: Any, rank: int) -> Any:
    """Return the value with `rank` values before it in the sorted window."""
    return view.read(rank)


@kernel
def answer_read(view: Any, outputs: Outputs, i: int) -> None:
    """Answer one window."""
    emit(outputs, i, spread(view))


# ---------------------------------------------------------------- the multisets of a store


@dataclass
class ValueGroup:
    """Aggregates over the same values, and the multisets of these by definition."""

    values: Values
    binding: Binding
    numbering: Numbering
    held: dict[int, Multisets] = field(default_factory=dict)
    codes: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """The integers of rows by place, where they are not the bits of the column."""

    def source(self, store: RowStore) -> Source:
        """Return the values of the rows of a store."""
        column, where = self.values.column, self.values.where
        numbering = self.numbering
        bits = numbering.bits(store.values[column]) if isinstance(numbering, Numbers) else self.codes
        flags = (None, None) if where is None else (store.values[where], store.valid[where])
        valid, where_true, where_valid = (
            _ALL if each is None else read_only(each) for each in (store.valid[column], *flags)
        )
        return Source(read_only(bits), valid, where_true, where_valid, numbering.order)

    def coded(self, columns: Mapping[str, Column]) -> Array:
        """Return the integers of new rows, if there is one beside each. O(rows)."""
        assert not isinstance(self.numbering, Numbers)
        return self.numbering.of(columns[self.values.column])

    def answer(self, store: RowStore, window_id: int, keys: Array, first: Array, last: Array) -> dict[str, Raw]:
        """Return the aggregates of windows, the rows of keys between positions. O(log n) for each row that changes."""
        outputs = self.binding.outputs(len(keys))
        windows = read_only(keys), read_only(first), read_only(last)
        if self.values.distinct:
            counts = np.empty(len(keys), np.int64)
            kernels = following(not kernel_cache.is_uncompiled())

            def count(rows: Tree, held: Multisets, source: Source, now: Array) -> bool:
                return bool(kernels.count_windows(rows, held, source, *windows, now, counts))

            self._run(store, window_id, count)
            write_answers(self.binding, counts, outputs)
        elif isinstance(self.numbering, Numbers) and not self.binding.plain:
            module = self.binding.kernels(ANSWERING, "answer_moving", sorted_store=True)
            at, word = np.zeros(1, np.int64), np.zeros(1, np.int64)
            shown = word.view(self.numbering.keys.kind.dtype)[:1]

            def run(rows: Tree, held: Multisets, source: Source, now: Array) -> bool:
                view = View(held, at, word, shown, source.order)
                return bool(module.answer_moving(rows, held, source, *windows, now, view, outputs))

            self._run(store, window_id, run)
        else:
            self._answer_plainly(store, window_id, windows, outputs)
        return results_by_name(self.binding, outputs)

    def _run(self, store: RowStore, window_id: int, run: Callable[[Tree, Multisets, Source, Array], bool]) -> None:
        """Run a kernel over the multisets of a definition, with more room when it stops."""
        held = self.held[window_id] = with_sets(self.held.get(window_id) or Multisets.empty(), store.keys)
        now, source = np.array([0, NONE, NONE, NONE, 0], np.int64), self.source(store)
        while not run(store.tree, held, source, now):
            held = self.held[window_id] = with_room(held, int(now[WANTED]))

    def _answer_plainly(
        self, store: RowStore, window_id: int, windows: tuple[Array, Array, Array], outputs: tuple[Array, ...]
    ) -> None:
        """Answer windows whose values or answers are objects: only the multisets are moved by compiled kernels."""
        assert not isinstance(self.numbering, Tokens)
        kernels, value = following(not kernel_cache.is_uncompiled()), self.numbering.value
        module = self.binding.uncompiled.kernels((count_of, read_nth, answer_read), "answer_read", sorted_store=True)

        def run(rows: Tree, held: Multisets, source: Source, now: Array) -> bool:
            while now[AT] < len(windows[0]):
                i = int(now[AT])
                key, first, last = (int(each[i]) for each in windows)
                if first != NONE and not kernels.go_to(rows, held, source, key, first, last, now):
                    return False
                line = key * SET
                count = int(held.sets[line + COUNT]) if first != NONE else 0
                if count:
                    read = _Read(count, lambda rank: value(kernels.value_at(held, line, rank)))  # noqa: B023
                    module.answer_read(read, outputs, i)
                else:
                    module.emit_empty(outputs, i)
                now[AT] = i + 1
            kernels.close_key(held, now)
            return True

        self._run(store, window_id, run)

    def follow(self, store: RowStore, keys: Array, times: Array) -> None:
        """Take in the values of new rows that lie among those of windows. O(log n) for each, and for each key."""
        kernels = following(not kernel_cache.is_uncompiled())
        for window_id in self.held:
            self._run(
                store,
                window_id,
                lambda rows, held, source, now: kernels.follow_rows(rows, held, source, keys, times, now),
            )

    def leave(self, store: RowStore, keys: Array, counts: Array) -> None:
        """Take out the values of the first rows of keys, which are about to be evicted. O(log n) for each."""
        if self.held:
            kernels, source = following(not kernel_cache.is_uncompiled()), self.source(store)
            for held in self.held.values():
                kernels.leave_rows(store.tree, held, source, keys, counts)

    def check(self, store: RowStore) -> None:
        """Raise `InvariantError` if a multiset has other values than its rows. O(n)."""
        for held in self.held.values():
            for key in np.flatnonzero(held.sets[KNOWN::SET]).tolist():
                reason = multisets.wrong(held, key) or self._wrong_rows(store, held, key)
                if reason is not None:
                    raise InvariantError(reason)

    def _wrong_rows(self, store: RowStore, held: Multisets, key: int) -> str | None:
        first, last = (int(held.sets[key * SET + at]) for at in (FIRST, LAST))
        _, places = store.rows(np.array([key]))
        source = self.source(store)
        values = [self._value(source, place) for place in places[first:last].tolist()]
        counted = Counter(value for value in values if value is not None)
        found = dict(zip(*(each.tolist() for each in multisets.contents(held, key)), strict=True))
        if last <= len(places) and counted == found:
            return None
        return f"the multiset of key {key} has other values than its rows {first} to {last}"

    def _value(self, source: Source, place: int) -> int | None:
        order = source.order.tolist()
        word = int(source.bits[place])
        value = word ^ ((word >> 63) & order[TURNED]) ^ order[TOP]
        is_nan = not order[LEAST] <= value <= order[GREATEST]
        masks = (mask for mask in (source.valid, source.where, source.where_valid) if len(mask))
        if not all(mask[place] for mask in masks) or (is_nan and order[SKIPS_NAN]):
            return None
        return order[NAN] if is_nan else 0 if value == -1 and order[ONE_ZERO] else value


class MovingWindows:
    """Multisets of the values of windows that move, for all definitions and keys of a store."""

    def __init__(self, aggregations: Mapping[str, Aggregation], types: Mapping[str, ColumnType]) -> None:
        """Answer aggregations that have a `numbering_for`."""
        self.aggregations, self._types = aggregations, types
        self._groups = [self._group(*each) for each in values_together(aggregations, types).items()]

    def _group(self, values: Values, binding: Binding) -> ValueGroup:
        # Those that read the same values have the same numbering.
        numbering = numbering_for(self.aggregations[binding.names[0]], self._types)
        assert numbering is not None
        return ValueGroup(values, binding, numbering(self._types[values.column], values))

    @property
    def coded(self) -> list[ValueGroup]:
        """The groups that keep an integer for each row."""
        return [group for group in self._groups if not isinstance(group.numbering, Numbers)]

    def answer(self, store: RowStore, window_id: int, keys: Array, first: Array, last: Array) -> dict[str, Raw]:
        """Return the aggregates of windows of a definition by name: the rows of keys between positions.

        O(log n) for each row that enters a window or leaves it since the one before.
        """
        raw: dict[str, Raw] = {}
        for group in self._groups:
            raw |= group.answer(store, window_id, keys, first, last)
        return raw

    def follow(self, store: RowStore, keys: Array, times: Array) -> None:
        """Note that rows have been inserted, sorted by key and time. O(log n) for each late one, and for each key."""
        keys, times = read_only(keys), read_only(times)
        for group in self._groups:
            group.follow(store, keys, times)
            numbering = group.numbering
            if isinstance(numbering, Tokens) and numbering.outgrown(len(store)):
                _, places = store.rows()
                numbering.forget()
                group.codes[places] = numbering.of(store.take(places)[group.values.column])
                group.held.clear()

    def leave(self, store: RowStore, keys: Array, counts: Array) -> None:
        """Note that the first rows of keys, at most all, are about to be evicted. O(log n) for each that is read."""
        for group in self._groups:
            group.leave(store, read_only(keys), read_only(counts))

    def drop(self, window_id: int) -> None:
        """Forget the values of a definition."""
        for group in self._groups:
            group.held.pop(window_id, None)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row, besides its column."""
        return 8 * len(self.coded)

    @property
    def value_bytes(self) -> int:
        """The bytes of a row in the window that is held of a definition, if no other one has its value."""
        return len(self._groups) * (ENTRY + ENTRY // 2)  # nodes are two thirds full

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        codes = sum(group.codes.nbytes for group in self._groups)
        return codes + sum(held.nbytes for group in self._groups for held in group.held.values())

    def check(self, store: RowStore) -> None:
        """Raise `InvariantError` if a multiset has other values than its rows. O(n)."""
        for group in self._groups:
            group.check(store)


_ALL = read_only(np.zeros(0, np.bool_))
