"""Slices of one sliding definition: by key, or by time if most of many keys have rows between each two edges."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.streams.blocks import MERGES, SLICES
from muntin.streams.found import Found
from muntin.streams.slices.due import BY_TIME
from muntin.streams.slices.panes import Panes
from muntin.streams.slices.partials import Partials
from muntin.streams.slices.shapes import Shapes
from muntin.streams.slices.slice_set import NO_ROWS, STACKED, SliceSet, require, states_at
from muntin.streams.strategy import Batch
from muntin.types import Array

MANY_KEYS = 512
"""With fewer keys their slices are in a cache, however they are laid out."""
FULL, SPARSE = 3, 4
"""Slices are laid out by time if at least one in `FULL` of the panes' slots is taken, and no longer if one in
`SPARSE`: an empty slot takes as much memory as a slice."""
PATIENCE = 8
"""Slices are laid out by time after this many emissions, and one more for each slice of a window: it is O(slices), and
an emission O(keys)."""
_at_once = contextvars.ContextVar("_at_once", default=False)


@contextlib.contextmanager
def by_time_at_once() -> Iterator[None]:
    """Lay out slices by time inside this block wherever that is possible, however few: to compile what that takes."""
    before = _at_once.set(True)
    try:
        yield
    finally:
        _at_once.reset(before)


def is_dense(slices: int, slots: int, ratio: int) -> bool:
    """Return whether at least one in `ratio` of the slots is taken."""
    return ratio * slices >= slots or _at_once.get()


class PaneSet(SliceSet):
    """Slices by key or by time, whichever suits the rows; the same slices, saved in the same arrays."""

    def __init__(self, binding: Binding, shapes: Shapes, *, watched: bool, merger: str) -> None:
        self.panes: Panes | None = None
        self._emissions = 0
        self._answers: tuple[Array, ...] = ()
        super().__init__(binding, shapes, watched=watched, merger=merger)

    @staticmethod
    def suits(binding: Binding, shapes: Shapes, merger: str) -> bool:
        """Return whether slices may be laid out by time: windows of one definition, of equal slices, not too many."""
        return binding.fixed and merger in (STACKED, "lazy") and shapes.slides_alone and len(shapes.steps) == 1

    @property
    def is_by_key(self) -> bool:
        """Whether the slices of a key are contiguous."""
        return self.panes is None

    # ------------------------------------------------------------ layouts

    def _lay_out_by_time(self, keys: int, slices: int, needed: int) -> None:
        """Lay out slices by time, if most of the keys below `keys` have some between each two edges.

        There were so many slices when windows were answered; those before the edge `needed` are evicted.
        """
        self._emissions += 1
        few = keys < MANY_KEYS and not _at_once.get()
        if few or not keys or needed == END_OF_TIME or not self._may_lie_by_time:
            return
        step, phase, length = (int(each[0]) for each in (self.shapes.steps, self.shapes.phases, self.shapes.lengths))
        length //= step
        if self._emissions < PATIENCE + length and not _at_once.get():
            return
        self._emissions = 0
        if not is_dense(slices, keys * length, FULL):
            return
        slots = self.slots()[2]
        low, high = self.slices.low[slots], self.slices.high[slots]
        panes = max(length, (int(low.max(initial=needed)) - needed) // step + 1)
        # Other definitions may have cut slices elsewhere.
        even = bool(((low - phase) % step == 0).all() and (high - low == step).all())
        if even and is_dense(slices, keys * panes, FULL):
            self._spread(self.save(), needed, panes, keys)

    @property
    def _may_lie_by_time(self) -> bool:
        whole = bool((self.shapes.sinces == BEFORE_TIME).all() and (self.shapes.floors == BEFORE_TIME).all())
        return whole and not self.watched and self.suits(self.binding, self.shapes, self.merger)

    def _spread(self, arrays: Mapping[str, Array], needed: int, panes: int, keys: int) -> None:
        """Put slices into panes from the edge `needed` on; there is room for some more panes and keys than these."""
        step, phase, length = (int(each[0]) for each in (self.shapes.steps, self.shapes.phases, self.shapes.lengths))
        capacity, width = (each + each // 8 + 2 for each in (panes, keys))
        oldest = (needed - phase) // step
        spread = Panes(self.binding, step, phase, length // step, oldest=oldest, capacity=capacity, width=width)
        spread.put(np.repeat(arrays["keys"], arrays["sizes"]), arrays["low"], arrays["states"])
        super().clear()
        self.panes = spread
        self.marks[SLICES], self.marks[MERGES] = spread.slices, int(arrays["merges"][0])

    def lay_out_by_key(self) -> None:
        """Lay out slices by key again. O(slices)."""
        if self.panes is not None:
            keys = self.panes.keys
            self.load(self.save())
            self.know_keys(keys)

    def know_keys(self, count: int) -> None:
        """Make room for `count` keys."""
        if self.panes is None:
            super().know_keys(count)
            return
        if count > self.panes.width:
            self._enlarge(self.panes, self.panes.count, count)
        self.panes.keys = max(self.panes.keys, count)

    def _enlarge(self, panes: Panes, count: int, keys: int) -> None:
        """Make room for `count` panes of `keys` keys. O(slices), so O(1) per pane and key, amortised."""
        self._spread(self.save(), panes.time_of(panes.oldest), max(panes.length, count), keys)
        assert self.panes is not None
        self.panes.keys = panes.keys

    def _make_fit(self, panes: Panes, batch: Batch) -> None:
        """Make room for the panes of rows; lay out slices by key if most of these would be empty."""
        needed = panes.pane_of(batch.latest) - panes.oldest + 1
        if needed > panes.capacity:
            if is_dense(panes.slices + len(batch.times), needed * panes.keys, SPARSE):
                self._enlarge(panes, needed, panes.keys)
            else:
                self.lay_out_by_key()

    # ------------------------------------------------------------ rows in, windows out

    def take(self, batch: Batch) -> None:
        """Put rows into slices."""
        if self.panes is not None and len(batch.times):
            self._make_fit(self.panes, batch)
        if self.panes is None:
            super().take(batch)
        elif len(batch.times):
            self.panes.take(batch)
            self.marks[SLICES] = self.panes.slices

    def take_late(self, batch: Batch, lateness: int, watermark: int) -> Array:
        """Put rows behind the watermark, in time order, into slices; return which of them a window took."""
        if self.panes is None:
            return super().take_late(batch, lateness, watermark)
        taken: Array = self.shapes.last_ends(batch.times) + lateness > watermark
        self.take(batch.take(np.flatnonzero(taken)))
        return taken

    def take_slices(self, partials: Partials, states: Array) -> None:
        """Merge slices built elsewhere, with these states, into those held."""
        self.lay_out_by_key()
        self._emissions = 0  # more of them will come, and they are merged by key
        super().take_slices(partials, states)

    def find(self, chosen: Array, after: tuple[int, int], until: int) -> Found:
        """Return the windows of some keys that end in (after, until]; of all keys, if slices lie by time."""
        if self.panes is None:
            return super().find(chosen, after, until)
        panes = self.panes
        ends = [*panes.ends(after[BY_TIME], until)]
        answered = [panes.answer(end) for end in ends]
        keys = np.concatenate([np.zeros(0, np.int64), *(found for found, _ in answered)])
        end = np.repeat(panes.time_of(np.array(ends, np.int64)), [len(found) for found, _ in answered])
        outputs = [outputs for _, outputs in answered] or [self.binding.outputs(0)]
        self._answers = tuple(np.concatenate(each) for each in zip(*outputs, strict=True))
        if len(ends) > 1:  # as by key: all windows of a key together
            order = np.argsort(keys, kind="stable")
            keys, end = keys[order], end[order]
            self._answers = tuple(each[order] if len(each) else each for each in self._answers)
        nothing = np.zeros(len(keys), np.int64)
        return Found(keys, nothing, end - self.shapes.lengths[0], end, nothing, nothing, NO_ROWS)

    def answer(self, found: Found) -> dict[str, Any]:
        """Return the raw results of windows by name. By time, they were found with their answers."""
        return super().answer(found) if self.panes is None else self._named(self._answers)

    def purge(self, chosen: Array, needed: int, watermark: int, lateness: int) -> None:
        """Evict slices that no window needs any more; lay out the others as suits them."""
        slices = int(self.marks[SLICES])
        if self.panes is None:
            super().purge(chosen, needed, watermark, lateness)
            self._lay_out_by_time(int(chosen[-1]) + 1 if len(chosen) else 0, slices, needed)
            return
        panes, self._answers = self.panes, ()
        held = max(panes.length, panes.count)
        panes.drop_before(min(needed, panes.time_of(panes.latest + 1)))
        self.marks[SLICES] = panes.slices
        if not is_dense(slices, panes.keys * held, SPARSE):
            self.lay_out_by_key()

    # ------------------------------------------------------------ state

    def reshape(self, shapes: Shapes) -> None:
        """Cut slices for other definitions from now on."""
        self.lay_out_by_key()
        super().reshape(shapes)

    def clear(self) -> None:
        """Forget all slices."""
        self.panes, self._emissions = None, 0
        super().clear()

    def held(self) -> Array:
        """Return the keys that have slices."""
        return super().held() if self.panes is None else np.flatnonzero(self.panes.sizes[: self.panes.keys])

    def slots(self) -> tuple[Array, Array, Array]:
        """Return the keys that have slices, the number of each, and all slots in order: by key from now on."""
        self.lay_out_by_key()
        return super().slots()

    def save(self) -> dict[str, Array]:
        """Return the slices, key by key."""
        if self.panes is None:
            return super().save()
        panes, keys = self.panes, self.held()
        _, places, slots = panes.slots()
        low = panes.time_of(places)
        arrays = {"keys": keys, "sizes": panes.sizes[keys], "low": low, "high": low + panes.step}
        return arrays | {"states": states_at(panes.states, slots), "merges": self.marks[MERGES : MERGES + 1].copy()}

    @property
    def bytes(self) -> int:
        """The memory of the slices."""
        return super().bytes if self.panes is None else self.panes.bytes

    def check(self) -> None:
        """Raise `InvariantError` if slices contradict each other."""
        if self.panes is None:
            super().check()
        else:
            self.panes.check()
            require(int(self.marks[SLICES]) == self.panes.slices, "the number of slices is not that of the panes")
