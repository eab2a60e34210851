"""The definitions of a plan as arrays, for the kernels: windows by time first, a user's own last, then sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.streams.slices.due import CUMULATIVE, OWN, SLIDING
from muntin.streams.slices.own_edges import Own
from muntin.types import Array
from muntin.windows.own import ContextFree
from muntin.windows.sessions import Session
from muntin.windows.times import Cumulative, Sliding


@dataclass(frozen=True)
class Shapes:
    """The definitions of a plan as arrays: windows by time first, a user's own last, then sessions."""

    ids: Array
    kinds: Array
    lengths: Array
    """How long windows are; of a user's own, the how many-th definition of that kind it is."""
    everys: Array
    offsets: Array
    sinces: Array
    """The least time at which a window may begin: slices before were not cut for a definition that came later."""
    floors: Array
    """The time after which a window must end: what ended before a definition came is not its business."""
    gaps: Array
    gap: int
    """The smallest gap of a session, which no slice may span; -1 where there is none. It stays when that one goes."""
    steps: Array
    phases: Array
    own: Own

    @classmethod
    def of(cls, windows: Mapping[int, Any]) -> Shapes:
        """Read resolved definitions."""
        timed = {i: each for i, each in windows.items() if isinstance(each, Sliding | Cumulative)}
        sessions = {i: each for i, each in windows.items() if isinstance(each, Session)}
        own = {i: each for i, each in windows.items() if isinstance(each, ContextFree) and i not in timed}
        steps, phases = _progressions(timed.values())
        return cls(
            ids=ints([*timed, *own, *sessions]),
            kinds=ints(_kind(each) for each in (*timed.values(), *own.values())),
            lengths=ints([*(each.range for each in timed.values()), *range(len(own))]),
            everys=ints([*(each.every for each in timed.values()), *(0 for _ in own)]),
            offsets=ints([*(each.offset for each in timed.values()), *(0 for _ in own)]),
            sinces=np.full(len(timed) + len(own), BEFORE_TIME),
            floors=np.full(len(timed) + len(own), BEFORE_TIME),
            gaps=ints(each.gap for each in sessions.values()),
            gap=min((each.gap for each in sessions.values()), default=-1),
            steps=steps,
            phases=phases,
            own=Own(list(own.values())),
        )

    @property
    def timed(self) -> tuple[Array, ...]:
        """The windows by time, as kernels take them."""
        return self.kinds, self.lengths, self.everys, self.offsets, self.sinces, self.floors, *self.own.windows

    @property
    def takes_every_row(self) -> bool:
        """Whether some definition has a window for every time: a user's own may have none."""
        return len(self.ids) > len(self.own.each)

    def changed_to(self, windows: Mapping[int, Any], since: int, floor: int) -> Shapes:
        """Return the shapes of other definitions: those that stay as they are, a new one from some times on."""
        new = Shapes.of(windows)
        known = {int(i): (int(a), int(b)) for i, a, b in zip(self.ids, self.sinces, self.floors, strict=False)}
        bounds = [known.get(int(i), (since, floor)) for i in new.ids[: len(new.kinds)]]
        gap = new.gap if self.gap < 0 else min(self.gap, new.gap if new.gap >= 0 else self.gap)
        own = new.own
        own.each = tuple(self.own.of(each.definition) or each for each in own.each)
        return replace(new, sinces=ints(a for a, _ in bounds), floors=ints(b for _, b in bounds), gap=gap, own=own)

    def cuts_for(self, other: Shapes) -> bool:
        """Say whether all edges of other definitions are edges of these already."""
        step, phase = self.steps[:, None], self.phases[:, None]
        return bool(((other.steps % step == 0) & (other.phases % step == phase)).any(axis=0).all())

    def most_slices(self) -> int:
        """Return how many slices the longest window by time can have, as far as edges tell."""
        return int((self.lengths.max(initial=0) / self.steps).sum())

    def last_ends(self, times: Array) -> Array:
        """Return for each time the end of the last window by time that holds it. There is at least one definition."""
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

    def first_needed(self, watermark: int, lateness: int) -> int:
        """Return the least time that a window by time which is not settled can begin at."""
        if watermark == END_OF_TIME:
            return END_OF_TIME
        settled = watermark - lateness
        first = min((each.first_needed(settled) for each in self.own.each), default=END_OF_TIME)
        by_rule = self.kinds != OWN
        if by_rule.any():
            kinds, lengths, everys, offsets = (each[by_rule] for each in self.timed[:4])
            ends = settled + everys - (settled - offsets - lengths) % everys
            origins = ends - 1 - (ends - 1 - offsets) % lengths
            first = min(first, int(np.where(kinds == SLIDING, ends - lengths, origins).min()))
        return first


def _kind(definition: Any) -> int:
    if isinstance(definition, Sliding):
        return SLIDING
    return CUMULATIVE if isinstance(definition, Cumulative) else OWN


def ints(values: Iterable[int]) -> Array:
    """Return numbers as an array."""
    return np.array(list(values), np.int64)


def _progressions(windows: Iterable[Any]) -> tuple[Array, Array]:
    """Return all times at which windows begin or end as progressions (step, phase); none is part of another."""
    pairs = set()
    for each in windows:
        pairs.add((each.every, each.offset % each.every))
        if isinstance(each, Sliding):
            pairs.add((each.every, (each.offset + each.range) % each.every))
    return fewest(pairs)


def fewest(pairs: Iterable[tuple[int, int]]) -> tuple[Array, Array]:
    """Return the steps and phases of progressions, without those that are part of another."""
    chosen = sorted(set(pairs))
    steps, phases = np.zeros(len(chosen), np.int64), np.zeros(len(chosen), np.int64)
    count = 0
    for step, phase in chosen:
        known = steps[:count]
        if not bool(((step % known == 0) & (phase % known == phases[:count])).any()):
            steps[count], phases[count] = step, phase
            count += 1
    return steps[:count], phases[:count]
