"""The definitions of a plan as arrays, for the kernels: windows by time first, a user's own last, then sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.slicing.due import CUMULATIVE, OWN, SLIDING
from muntin.slicing.own_edges import Own
from muntin.slicing.strategy import END_OF_TIME
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
    gaps: Array
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
            gaps=ints(each.gap for each in sessions.values()),
            steps=steps,
            phases=phases,
            own=Own(list(own.values())),
        )

    @property
    def timed(self) -> tuple[Array, ...]:
        """The windows by time, as kernels take them."""
        return self.kinds, self.lengths, self.everys, self.offsets, *self.own.windows

    @property
    def takes_every_row(self) -> bool:
        """Whether some definition has a window for every time: a user's own may have none."""
        return len(self.ids) > len(self.own.each)

    @property
    def gap(self) -> int:
        """The smallest gap of a session, which no slice may span; -1 where there is none."""
        return int(self.gaps.min()) if len(self.gaps) else -1

    def most_slices(self) -> int:
        """Return how many slices the longest window by time can have, as far as edges tell."""
        return int((self.lengths.max(initial=0) / self.steps).sum())

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
    kept: list[tuple[int, int]] = []
    for step, phase in sorted(pairs):
        known = np.array(kept, np.int64).reshape(-1, 2)
        if not bool(((step % known[:, 0] == 0) & (phase % known[:, 0] == known[:, 1])).any()):
            kept.append((step, phase))
    return ints(step for step, _ in kept), ints(phase for _, phase in kept)
