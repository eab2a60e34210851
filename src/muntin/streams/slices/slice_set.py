"""The aggregate store: the slices of all keys, and the states of fused aggregations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregators.states import States
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import InvariantError
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import standalone
from muntin.kernels.tiers import SameTypes, is_waiting
from muntin.keys.order import order_by_key
from muntin.streams.blocks import (
    MEMORY,
    MERGES,
    SLICES,
    SLOTS,
    STEP,
    TOP,
    USED,
    Blocks,
    Slices,
    lay_out,
    longer,
    move_together,
    room_of,
    rooms,
)
from muntin.streams.found import Found
from muntin.streams.mergers import merge_slices
from muntin.streams.places import Places
from muntin.streams.script import DONE, NO_ROOM, SCRIPT, Script
from muntin.streams.slices.due import (
    BY_TIME,
    DUE,
    MEMBERS,
    SESSIONS,
    TimeShapes,
    Windows,
    count_rows,
    due_windows,
)
from muntin.streams.slices.late import LATE, Deadline, take_late_rows
from muntin.streams.slices.merge import MERGE
from muntin.streams.slices.partials import PARTIALS, Incoming, Partials, take_slices
from muntin.streams.slices.purge import PURGE, purge
from muntin.streams.slices.shapes import Shapes, ints
from muntin.streams.slices.slicer import FOLDING, PLACING, ROW, SLICER, Edges, Rows, take_rows
from muntin.streams.slices.stacks import STACKS, Stacks
from muntin.streams.slices.taking_back import take_rows_back
from muntin.streams.strategy import Batch
from muntin.types import Array

_FEW_WINDOWS = 64
_NO_TIMES = NO_ROWS = np.zeros(0, np.int64)
STACKED = "two_stacks"
"""The merger whose folds are maintained per key, if there is one sliding definition."""
SLICING = (order_by_key, take_rows, take_late_rows, take_slices, due_windows, count_rows, purge)
"""The kernels that see no state."""
_INNER = (*SCRIPT, *MEMORY, *SLOTS, *PLACING, *SLICER, *MEMBERS, *DUE, *LATE, *PURGE)


@cache
def slicing(compiled: bool) -> Any:
    """Return the kernels that see no state, compiled once for all aggregations."""
    inner = [each for each in _INNER if each not in SLICING]
    return SameTypes(kernel_cache.load(standalone(*SLICING, within=inner, counted=False), compiled=compiled))


class SliceSet:
    """The slices of all keys, with the states of fused aggregations."""

    tagged: ClassVar[bool] = False
    """Whether slices have tags, under which more data is kept."""
    only_counts: ClassVar[bool] = False
    """Whether states only count rows and answers come from elsewhere: nothing is merged."""

    def __init__(self, binding: Binding, shapes: Shapes, *, watched: bool, merger: str) -> None:
        self.binding = binding
        self.shapes = shapes
        self.watched = watched or shapes.gap >= 0  # removed sessions have left slices with gaps
        self.merger = "lazy" if self.only_counts else merger
        self.has_tree = self.merger == "flat_fat"
        self.has_stacks = self.merger == STACKED and shapes.slides_alone and binding.bounded
        self.spaced = shapes.gap >= 0
        # All sets of a query have their slices in the same slots.
        self.blocks = Blocks.empty(2 if merger == "flat_fat" else 1)
        self.slices = Slices(*(np.zeros(0, np.int64) for _ in Slices._fields))
        self.script = Script.empty()
        self.cursor = ints([1, 0, 0])
        self._after = np.zeros(2, np.int64)
        self._own_windows: tuple[Array, ...] | None = None
        self._between: tuple[Array, ...] | None = None
        self._make_room_to_find(_FEW_WINDOWS)
        self.coming = np.full(len(shapes.steps), BEFORE_TIME, np.int64) + shapes.steps
        self.tags = self.fresh = np.zeros(0, np.int64)
        self.stacks = Stacks.empty()
        self.states, self.tree, self.back = binding.slots(0), binding.slots(0), binding.slots(0)
        self._make_room(64)

    @property
    def may_fail(self) -> bool:
        """Whether an aggregation can raise an error."""
        return self.binding.may_fail

    @property
    def marks(self) -> Array:
        """The counters of slices and of memory: see `blocks`."""
        marks: Array = self.blocks.marks
        return marks

    @property
    def is_by_key(self) -> bool:
        """Whether the slices of a key are contiguous: then rows are put into them key by key, if there are many."""
        return True

    @property
    def slicing(self) -> Any:
        """The kernels that see no state."""
        return slicing(not kernel_cache.is_uncompiled())

    @cached_property
    def folding(self) -> Any:
        """The kernels that fold rows and merge states; one module, so that shared callees are compiled once."""
        entries = ("fold_rows", "fold_windows", "query_windows", "slide_windows")
        return SameTypes(self.binding.kernels((*FOLDING, *MERGE, *STACKS), *entries))

    def _make_room(self, slots: int) -> None:
        """Grow the arrays to `slots`, keeping their contents."""
        spaced = slots if self.spaced else 0
        held = self.slices
        self.slices = Slices(
            low=longer(held.low, slots),
            high=longer(held.high, slots),
            first=longer(held.first, spaced),
            last=longer(held.last, spaced),
            count=longer(held.count, slots if self.watched else 0),
            skip=longer(held.skip, spaced, 0),
            tag=longer(held.tag, slots if self.tagged else 0),
            joins=held.joins,
        )
        self.states = more_states(self.binding, self.states, slots)
        self.tree = more_states(self.binding, self.tree, slots if self.has_tree or self.has_stacks else 0)

    def _rearrange(self) -> None:
        """Compact the blocks in key order, and leave room for more. O(slices).

        This reclaims outgrown blocks, which were half of the memory and scattered the slices of keys.
        """
        keys, _, before = self.slots()
        slices, states = self.slices, self.states
        move_together(self.blocks, keys)
        _, _, after = self.slots()
        self.slices = Slices(*(np.zeros(0, np.int64) for _ in Slices._fields))._replace(joins=slices.joins)
        self.states, self.tree = self.binding.slots(0), self.binding.slots(0)
        used, longest = int(self.marks[USED]), room_of(int(self.blocks.length.max(initial=0)))
        self._make_room(64 + used + max(used, 4 * longest))
        for old, new in zip(slices[:-1], self.slices[:-1], strict=True):
            if len(new):
                new[after] = old[before]
        move_states(states, before, self.states, after)

    @property
    def _further(self) -> tuple[str, ...]:
        """The arrays kept besides the edges and states of slices."""
        return (*(("count",) if self.watched else ()), *(("first", "last", "skip") if self.spaced else ()))

    def reshape(self, shapes: Shapes) -> None:
        """Cut slices for other definitions from now on."""
        self.shapes = shapes
        if self.has_stacks and not shapes.slides_alone:
            self.has_stacks, self.merger = False, "lazy"
        self._own_windows = self._between = None
        self.coming = np.full(len(shapes.steps), BEFORE_TIME, np.int64) + shapes.steps
        self.cursor = ints([1, 0, 0])

    def forget_session(self, number: int) -> None:
        """Drop the bit of a removed session definition: those after it move down."""
        below = (1 << number) - 1
        skip = self.slices.skip
        skip[:] = (skip & below) | (skip >> 1 & ~below)

    def know_keys(self, count: int) -> None:
        """Make room for `count` keys."""
        if count > len(self.blocks.base):
            room = max(count, 2 * len(self.blocks.base))
            self.blocks = self.blocks.for_keys(room)
            if self.has_stacks:
                self.stacks, self.back = self.stacks.for_keys(room), more_states(self.binding, self.back, room)

    def order_by_key(self, keys: Array, top: int) -> Array:
        """Return the order of rows by key; keys are below `top`."""
        if top > 16 * len(keys):
            return np.argsort(keys, kind="stable")
        order = np.empty(len(keys), np.int64)
        self.slicing.order_by_key(keys, np.zeros(top, np.int64), order)
        return order

    def take(self, batch: Batch) -> None:
        """Put rows into slices."""
        self._place("take_rows", batch)

    def take_late(self, batch: Batch, lateness: int, watermark: int) -> Array:
        """Put rows behind the watermark, in time order, into slices; return which of them a window took."""
        taken = np.zeros(len(batch.times), np.bool_)
        self._place("take_late_rows", batch, self._shapes, self.shapes.gaps, Deadline(lateness, watermark), taken)
        return taken

    def _place(self, name: str, batch: Batch, *further: Any) -> None:
        """Find the slices of rows, and fold the rows into them."""
        rows = Rows(batch.keys, batch.times, self.tags, self.fresh)
        inputs = self.binding.inputs(batch.columns, len(batch.times))
        edges = self._edges
        kernel, fold = getattr(self.slicing, name), self.folding.fold_rows
        self._carry_out(
            lambda: kernel(rows, self.slices, self.blocks, self.script, edges, self.cursor, self.shapes.gap, *further),
            lambda: fold(self.script, inputs, batch.times, self.states),
        )

    def take_back(self, rows: Batch, slots: Array) -> None:
        """Take rows out of the slices in some slots. One inverse for each."""
        if not len(slots):
            return
        np.subtract.at(self.slices.count, slots, 1)
        np.minimum.at(self.blocks.stale, rows.keys, slots - self.blocks.base[rows.keys])
        inputs = self.binding.inputs(rows.columns, len(slots))
        self.binding.kernels((take_rows_back,), "take_rows_back").take_rows_back(slots, inputs, rows.times, self.states)

    def take_slices(self, partials: Partials, states: Array) -> None:
        """Merge slices built elsewhere, with these states, into those held."""
        incoming = Incoming(partials.keys, partials.low, partials.high, partials.count)
        fold = self.binding.kernels(PARTIALS, "fold_slices").fold_slices
        self._carry_out(
            lambda: self.slicing.take_slices(incoming, self.slices, self.blocks, self.script, self.cursor),
            lambda: fold(self.script, states, self.states),
        )

    def _carry_out(self, write: Callable[[], int], run: Callable[[], None]) -> None:
        """Write and execute scripts until done; if slots run out, continue with more."""
        self.cursor[ROW] = self.script.length[0] = 0
        stopped = -1
        while stopped != DONE:
            stopped = write()
            if self.script.length[0] or is_waiting():  # a caller that waits for kernels wants the rarer ones too
                run()
            if stopped == NO_ROOM:
                self._rearrange()

    def clear(self) -> None:
        """Forget all slices."""
        merger = "flat_fat" if self.marks[STEP] == 2 else self.merger
        SliceSet.__init__(self, self.binding, self.shapes, watched=self.watched, merger=merger)

    def find(self, chosen: Array, after: tuple[int, int], until: int) -> Found:
        """Return the windows of some keys that end in (after, until]."""
        self._after[BY_TIME], self._after[SESSIONS] = after
        soonest = np.empty(len(self.shapes.kinds), np.int64)
        fixed = (self.slices, self.blocks, chosen, self._shapes, self.shapes.gaps, self._after, until, soonest)
        due_windows = self.slicing.due_windows
        count = due_windows(*fixed, self._room)
        if count > len(self._room.keys):
            self._make_room_to_find(count + count // 4)  # expect slightly more the next time
            due_windows(*fixed, self._room)
        keys, definitions, start, end, first, last = self._found[:, :count].copy()
        if 8 * count < len(self._room.keys) > _FEW_WINDOWS:
            self._make_room_to_find(_FEW_WINDOWS)  # shrink after a large call
        if not self.watched:
            return Found(keys, definitions, start, end, first, last, NO_ROWS)
        found = Found(keys, definitions, start, end, first, last, np.zeros(count, np.int64))
        self.slicing.count_rows(self.slices, Windows(*found.arrays), len(self.shapes.kinds), found.rows)
        return found

    @property
    def _edges(self) -> Edges:
        """The edges of windows by time. As for windows, only those that Python computes change."""
        between = self.shapes.own.intervals
        if between is not self._between:
            edges = Edges(self.shapes.steps, self.shapes.phases, self.coming, *between)
            self._between, self._all_edges = between, edges
        return self._all_edges

    def _make_room_to_find(self, windows: int) -> None:
        self._found = np.empty((len(Windows._fields), windows), np.int64)
        self._room = Windows(*self._found)

    @property
    def _shapes(self) -> TimeShapes:
        """The windows by time. Only those that Python computes change, in a new tuple."""
        current = self.shapes.own.windows
        if current is not self._own_windows:
            self._own_windows, self._timed = current, TimeShapes(*self.shapes.timed)
        return self._timed

    def answer(self, found: Found) -> dict[str, Any]:
        """Return the raw results of windows by name."""
        outputs = self.binding.outputs(len(found.keys))
        if len(found.keys):
            self._write(found, outputs)
        return self._named(outputs)

    def _named(self, outputs: tuple[Array, ...]) -> dict[str, Any]:
        """Return what kernels wrote, by the name of the aggregate."""
        triples = zip(self.binding.names, self.binding.results, self.binding.raw_results(outputs), strict=True)
        return {name: (values, valid, result) for name, result, (values, valid) in triples}

    def _write(self, found: Found, outputs: tuple[Array, ...]) -> None:
        """Write the answers of windows."""
        if self.merger == "lazy" or self.has_gaps:
            slots = (found.definitions, found.first, found.last)
            self.folding.fold_windows(self.states, self.slices.skip, *slots, len(self.shapes.kinds), outputs)
        elif self.has_stacks:
            folds = (self.states, self.tree, self.back, self.stacks, self.blocks.base, self.blocks.stale)
            self.folding.slide_windows(*folds, found.keys, found.first, found.last, outputs)
        elif self.has_tree:
            slots = (found.keys, found.first, found.last)
            self.folding.query_windows(self.states, self.tree, self.blocks, *slots, outputs)
        else:
            merge_slices(self.merger, self.binding, self.states, found, outputs)

    @property
    def has_gaps(self) -> bool:
        """Whether sessions skip slices in the middle, so that no tree can answer them."""
        return bool(len(self.shapes.gaps)) and bool(self.slices.skip[: self.marks[TOP]].any())

    def purge(self, chosen: Array, needed: int, watermark: int, lateness: int) -> None:
        """Evict slices that no window needs any more."""
        # `fold_rows` is already compiled and can merge states: a separate kernel would take a fifth more compile time.
        fold, nothing = self.folding.fold_rows, self.binding.no_inputs
        self._carry_out(
            lambda: self.slicing.purge(
                self.slices,
                self.blocks,
                self.script,
                self.cursor,
                chosen,
                needed,
                self.shapes.gap,
                self.shapes.gaps,
                Deadline(lateness, watermark),
            ),
            lambda: fold(self.script, nothing, _NO_TIMES, self.states),
        )

    def held(self) -> Array:
        """Return the keys that have slices."""
        held: Array = self.blocks.size.nonzero()[0]
        return held

    @property
    def oldest(self) -> int:
        """The start of the oldest slice; the end of time if there is none."""
        keys = self.held()
        return int(self.slices.low[self.blocks.base[keys] + self.blocks.head[keys]].min(initial=END_OF_TIME))

    def slots(self) -> tuple[Array, Array, Array]:
        """Return the keys that have slices, the number of each, and all slots in order."""
        keys = self.held()
        sizes = self.blocks.size[keys]
        begins = self.blocks.base[keys] + self.blocks.head[keys]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return keys, sizes, np.repeat(begins, sizes) + within

    def save(self) -> dict[str, Array]:
        """Return the slices, key by key."""
        keys, sizes, slots = self.slots()
        arrays = {"keys": keys, "sizes": sizes, "low": self.slices.low[slots], "high": self.slices.high[slots]}
        arrays |= {name: getattr(self.slices, name)[slots] for name in self._further}
        if self.tagged:
            arrays["tag"] = self.slices.tag[slots]
        return arrays | {"states": states_at(self.states, slots), "merges": self.marks[MERGES : MERGES + 1].copy()}

    def places(self, prefix: str) -> Places:
        """Return where the saved arrays have what belongs to which aggregate."""
        return Places.of(prefix, self.binding, states=("states",))

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace the slices by those that `save` returned."""
        self.clear()
        keys, sizes = arrays["keys"], arrays["sizes"]
        self.know_keys(int(keys.max()) + 1 if len(keys) else 0)
        self._make_room(lay_out(self.blocks, keys, sizes))
        self.marks[MERGES] = int(arrays["merges"][0])
        _, _, slots = self.slots()
        self.slices.low[slots], self.slices.high[slots] = arrays["low"], arrays["high"]
        for name in self._further:
            getattr(self.slices, name)[slots] = arrays[name]
        if self.tagged:
            self.slices.tag[slots] = arrays["tag"]
        states = arrays["states"]
        if states.dtype.hasobject:
            states = States(self.binding).revived(states.copy())
        put_states(self.states, slots, states)

    @property
    def kept(self) -> int:
        """The number of rows kept besides the states."""
        return 0

    @property
    def slice_bytes(self) -> int:
        """The bytes of one slice: its edges, row counts and times, its state, and its tree node or fold."""
        folds = 1 + (self.has_tree or self.has_stacks)
        return 8 * (2 + len(self._further) + self.tagged) + int(self.states.itemsize) * folds

    def room_for(self, slices: int) -> int:
        """Return the block size of a key that always has `slices` slices: up to a quarter of it is free."""
        lengths = rooms(self.marks)
        return int(lengths[min(int(np.searchsorted(3 * lengths, 4 * slices)), len(lengths) - 1)])

    @property
    def bytes(self) -> int:
        """The memory of the blocks in use."""
        return int(self.marks[USED]) * self.slice_bytes + 5 * 8 * len(self.blocks.base)

    def check(self) -> None:
        """Raise `InvariantError` if slices contradict each other."""
        keys, sizes, slots = self.slots()
        starts = np.cumsum(sizes) - sizes
        inner = np.ones(len(slots), np.bool_)
        inner[starts] = False
        low, high = self.slices.low[slots], self.slices.high[slots]
        require(int(self.marks[SLICES]) == len(slots), "the number of slices is not that of the slots in use")
        require(bool((low < high).all()), "a slice ends before it begins")
        require(bool((low[inner] >= low[np.flatnonzero(inner) - 1]).all()), "slices are out of order")
        if self.shapes.gap < 0:
            before = high[np.flatnonzero(inner) - 1]
            require(bool((low[inner] >= before).all()), "slices overlap")
        if self.spaced:
            self._check_rows(slots, np.flatnonzero(inner))
        if self.has_stacks:
            self._check_stacks(keys)
        require(bool((self.blocks.base[keys] >= 0).all()), "a key with slices has no block")

    def _check_stacks(self, keys: Array) -> None:
        """Recompute the folds of each key's slices, as far as no slice has changed since."""
        states = States(self.binding)
        for key in keys.tolist():
            base, stale, head = (int(each[key]) for each in (self.blocks.base, self.blocks.stale, self.blocks.head))
            since, turn, until = (int(each[key]) for each in self.stacks)
            state = None
            for slot in range(base + turn - 1, base + max(since, head) - 1, -1) if stale >= turn else ():
                older = states.load(self.states, slot)
                state = older if state is None else states.combine(older, state)
                require(states.close(state, states.load(self.tree, slot)), "a fold is not that of its slices")
            if turn < until <= stale and head <= turn:
                state = states.load(self.states, base + turn)
                for slot in range(base + turn + 1, base + until):
                    state = states.combine(state, states.load(self.states, slot))
                require(states.close(state, states.load(self.back, key)), "the newer fold is not that of its slices")

    def _check_rows(self, slots: Array, inner: Array) -> None:
        first, last, skip = self.slices.first[slots], self.slices.last[slots], self.slices.skip[slots]
        low, high = self.slices.low[slots], self.slices.high[slots]
        plain = skip == 0
        require(bool(((low <= first) & (first <= last))[plain].all()), "a slice has a row before its edge")
        require(bool((last < high)[plain].all()), "a slice has a row at its end or after")
        require(bool((self.slices.count[slots] > 0).all()), "a slice has no rows")
        require(bool((last[inner] >= last[inner - 1]).all()), "the last rows of slices do not ascend")
        both = inner[plain[inner] & plain[inner - 1] & (low[inner] == low[inner - 1])]
        require(bool((first[both] > last[both - 1] + self.shapes.gap).all()), "two slices should have been one")


def require(condition: bool, message: str) -> None:
    """Raise an `InvariantError` unless a condition holds."""
    if not condition:
        raise InvariantError(f"Slices: {message}")


def move_states(states: Array, before: Array, other: Array, after: Array) -> None:
    """Copy states from `before` in one array to `after` in another."""
    put_states(other, after, states_at(states, before))


def put_states(states: Array, slots: Array, others: Array) -> None:
    """Copy other states of the same type into some slots."""
    if states.dtype.hasobject:
        states[slots] = others
    else:  # as bytes: NumPy copies records field by field
        record = np.dtype((np.void, states.dtype.itemsize))
        states.view(record)[slots] = others.view(record)


def states_at(states: Array, slots: Array) -> Array:
    """Return a copy of the states in some slots."""
    if states.dtype.hasobject:
        return states[slots]
    record = np.dtype((np.void, states.dtype.itemsize))  # as bytes: NumPy copies records field by field
    return states.view(record)[slots].view(states.dtype)


def more_states(binding: Binding, states: Array, slots: int) -> Array:
    """Return an array of `slots` states that begins with the current ones."""
    result = binding.slots(slots)
    if binding.fixed:  # as bytes: NumPy copies records field by field
        result.view(np.uint8)[: states.nbytes] = states.view(np.uint8)
    else:
        result[: len(states)] = states
    return result
