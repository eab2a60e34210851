"""The shapes of a plan's windows by time as arrays, for the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.streams.slices import known_edges
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.limits import may_be_many
from muntin.windows.shapes import KNOWN, SLIDING, Gap, KnownEdges, Periodic

_OVERFLOWS = BEFORE_TIME // 2
"""Before this time, subtracting the length of a window may overflow int64."""
_FEW = 16


@dataclass(frozen=True)
class Shapes:
    """The shapes of a plan as arrays: periodic ones first, then those with known edges, and those with a gap last."""

    ids: Array
    kinds: Array
    lengths: Array
    """The lengths of windows; for known edges, the place of the definition in `own`."""
    everys: Array
    offsets: Array
    sinces: Array
    """The earliest start of a window: earlier slices were not cut for a definition added later."""
    floors: Array
    """The time after which a window must end: windows that ended before the definition was added are not emitted."""
    gaps: Array
    gap: int
    """The smallest session gap, which no slice may span; -1 if there is none. It stays when that session is removed."""
    steps: Array
    phases: Array
    own: known_edges.KnownEdges

    @classmethod
    def of(cls, windows: Mapping[int, Window]) -> Shapes:
        """Return the shapes of resolved definitions, all of which have one."""
        shapes = {i: each.time_shape for i, each in windows.items()}
        periodic = {i: each for i, each in shapes.items() if isinstance(each, Periodic)}
        known = {i: each for i, each in shapes.items() if isinstance(each, KnownEdges)}
        gaps = {i: each.gap for i, each in shapes.items() if isinstance(each, Gap)}
        steps, phases = fewest(pair for each in periodic.values() for pair in each.progressions)
        return cls(
            ids=ints([*periodic, *known, *gaps]),
            kinds=ints([*(each.branch for each in periodic.values()), *(KNOWN for _ in known)]),
            lengths=ints([*(each.length for each in periodic.values()), *range(len(known))]),
            everys=ints([*(each.every for each in periodic.values()), *(0 for _ in known)]),
            offsets=ints([*(each.offset for each in periodic.values()), *(0 for _ in known)]),
            sinces=np.full(len(periodic) + len(known), BEFORE_TIME),
            floors=np.full(len(periodic) + len(known), BEFORE_TIME),
            gaps=ints(gaps.values()),
            gap=min(gaps.values(), default=-1),
            steps=steps,
            phases=phases,
            own=known_edges.KnownEdges([each.source for each in known.values()]),
        )

    @property
    def timed(self) -> tuple[Array, ...]:
        """The windows by time, as kernels take them."""
        return self.kinds, self.lengths, self.everys, self.offsets, self.sinces, self.floors, *self.own.windows

    @property
    def takes_every_row(self) -> bool:
        """Whether some definition has a window for every time: a user-defined one may have none."""
        return len(self.ids) > len(self.own.each)

    def changed_to(self, windows: Mapping[int, Window], since: int, floor: int) -> Shapes:
        """Return the shapes of other definitions: those that stay unchanged, a new one from `since` and `floor` on."""
        new = Shapes.of(windows)
        known = {int(i): (int(a), int(b)) for i, a, b in zip(self.ids, self.sinces, self.floors, strict=False)}
        bounds = [known.get(int(i), (since, floor)) for i in new.ids[: len(new.kinds)]]
        gap = new.gap if self.gap < 0 else min(self.gap, new.gap if new.gap >= 0 else self.gap)
        own = new.own
        own.each = tuple(self.own.of(each.definition) or each for each in own.each)
        return replace(new, sinces=ints(a for a, _ in bounds), floors=ints(b for _, b in bounds), gap=gap, own=own)

    def cuts_for(self, other: Shapes) -> bool:
        """Return whether all edges of other definitions are already edges of these."""
        step, phase = self.steps[:, None], self.phases[:, None]
        return bool(((other.steps % step == 0) & (other.phases % step == phase)).any(axis=0).all())

    def most_slices(self) -> int:
        """Return the most slices of the longest window by time, judged by edges."""
        return int((self.lengths.max(initial=0) / self.steps).sum())

    @property
    def slides_alone(self) -> bool:
        """Whether there is one definition, of sliding windows: each begins and ends after the previous one."""
        return len(self.ids) == 1 and self.kinds.tolist() == [SLIDING]

    @cached_property
    def _rate(self) -> float:
        """The number of windows that end per unit of time, of all periodic definitions."""
        return float((1.0 / self.everys[self.kinds != KNOWN]).sum())

    def may_open_many(self, span: int, keys: int) -> bool:
        """Return whether more windows of `keys` keys may end within `span` than a call may find. O(1)."""
        return may_be_many(span * self._rate * keys)

    def count_due(self, lows: Array, is_first: Array, after: int, until: int) -> dict[int, float]:
        """Return how many windows of each periodic definition end in (after, until]. O(slices).

        Slices begin at `lows`, those of a key contiguous and in order; `is_first` marks the first of each key. Counts
        in floats, so that nothing overflows.
        """
        counts = {}
        low = lows.astype(np.float64)
        for window_id, kind, length, every, offset in zip(
            self.ids.tolist(), self.kinds, self.lengths.tolist(), self.everys.tolist(), self.offsets, strict=False
        ):
            if kind != KNOWN:
                reach = low + length - (0 if kind == SLIDING else (low - offset) % length)
                first, last = (
                    np.floor((time - offset - length) / every)
                    for time in (np.maximum(low, after), np.minimum(reach, until))
                )
                known = np.where(is_first, -np.inf, np.concatenate(([0.0], last[:-1]))[: len(last)])
                counts[window_id] = float(np.maximum(last - np.maximum(first, known), 0).sum())
        return counts

    def last_ends(self, times: Array) -> Array:
        """Return the end of the last window by time that holds each time. Needs at least one definition."""
        steps = np.where(self.kinds == SLIDING, self.everys, self.lengths)
        shapes = zip(steps, self.offsets, self.lengths, strict=True)
        ends = [times - (times - offset) % step + length for step, offset, length in shapes]
        latest: Array = np.max(ends, axis=0)
        return latest

    def interval(self, times: Array) -> tuple[Array, Array]:
        """Return the edges around each time."""
        lows = [times - (times - phase) % step for step, phase in zip(self.steps, self.phases, strict=True)]
        highs = [low + step for low, step in zip(lows, self.steps, strict=True)]
        return np.max(lows, axis=0), np.min(highs, axis=0)

    @cached_property
    def _rules(self) -> list[tuple[Any, Any, Any, Any]]:
        """Periodic definitions: the length of windows, their period, one of their ends, whether cumulative.

        A few are plain numbers, faster than NumPy's overhead; many are arrays, all together.
        """
        columns = (self.kinds, self.lengths, self.everys, self.offsets)
        kinds, lengths, everys, offsets = (each[self.kinds != KNOWN] for each in columns)
        rules = (lengths, everys, offsets + lengths, kinds != SLIDING)
        if len(lengths) > _FEW:
            return [rules]
        return list(zip(*(each.tolist() for each in rules), strict=True))

    def look_ahead(self, watermark: int, lateness: int) -> tuple[int, int]:
        """Return the earliest start of a window that is not final, and the next watermark at which something changes.

        Before that watermark no further window by time ends or becomes final. It is the very next one if rows or Python
        determine the edges.
        """
        if watermark == END_OF_TIME:
            return END_OF_TIME, END_OF_TIME
        final_until = watermark - lateness
        needed = change = END_OF_TIME
        if self.own.each:
            needed = min(each.first_needed(final_until) for each in self.own.each)
        if len(self.gaps) or self.own.each or final_until < _OVERFLOWS:
            change = watermark + 1
        for length, every, an_end, cumulative in self._rules:
            final = final_until + every - (final_until - an_end) % every  # the first window end after that
            due = watermark + every - (watermark - an_end) % every if lateness else final
            begin = final - length
            if cumulative is not False:
                begin = begin + cumulative * (length - 1 - (final - 1 - an_end) % length)
            needed = min(needed, _least(begin))
            change = min(change, _least(due), _least(final) + lateness if lateness else END_OF_TIME)
        return needed, change


def _least(values: Any) -> int:
    """Return the least of several numbers, or the single one."""
    return values if isinstance(values, int) else int(values.min())


def ints(values: Iterable[int]) -> Array:
    """Return numbers as an array."""
    return np.array(list(values), np.int64)


def fewest(pairs: Iterable[tuple[int, int]]) -> tuple[Array, Array]:
    """Return the steps and phases of progressions, without those contained in another."""
    chosen = sorted(set(pairs))
    steps, phases = np.zeros(len(chosen), np.int64), np.zeros(len(chosen), np.int64)
    count = 0
    for step, phase in chosen:
        known = steps[:count]
        if not bool(((step % known == 0) & (phase % known == phases[:count])).any()):
            steps[count], phases[count] = step, phase
            count += 1
    return steps[:count], phases[:count]
