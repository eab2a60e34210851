"""The definitions of a plan as arrays, for the kernels: windows by time first, then sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.slicing.due import CUMULATIVE, SLIDING
from muntin.slicing.strategy import END_OF_TIME
from muntin.types import Array
from muntin.windows.sessions import Session
from muntin.windows.times import Cumulative, Sliding


@dataclass(frozen=True)
class Shapes:
    """The definitions of a plan as arrays: windows by time first, then sessions."""

    ids: Array
    kinds: Array
    lengths: Array
    everys: Array
    offsets: Array
    gaps: Array
    steps: Array
    phases: Array

    @classmethod
    def of(cls, windows: Mapping[int, Any]) -> Shapes:
        """Read resolved definitions."""
        timed = {i: each for i, each in windows.items() if isinstance(each, Sliding | Cumulative)}
        sessions = {i: each for i, each in windows.items() if isinstance(each, Session)}
        steps, phases = _progressions(timed.values())
        return cls(
            ids=ints([*timed, *sessions]),
            kinds=ints(SLIDING if isinstance(each, Sliding) else CUMULATIVE for each in timed.values()),
            lengths=ints(each.range for each in timed.values()),
            everys=ints(each.every for each in timed.values()),
            offsets=ints(each.offset for each in timed.values()),
            gaps=ints(each.gap for each in sessions.values()),
            steps=steps,
            phases=phases,
        )

    @property
    def timed(self) -> tuple[Array, Array, Array, Array]:
        """The windows by time, as kernels take them."""
        return self.kinds, self.lengths, self.everys, self.offsets

    @property
    def gap(self) -> int:
        """The smallest gap of a session, which no slice may span; -1 where there is none."""
        return int(self.gaps.min()) if len(self.gaps) else -1

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
        if watermark == END_OF_TIME or not len(self.kinds):
            return END_OF_TIME
        settled = watermark - lateness
        ends = settled + self.everys - (settled - self.offsets - self.lengths) % self.everys
        origins = ends - 1 - (ends - 1 - self.offsets) % self.lengths
        return int(np.where(self.kinds == SLIDING, ends - self.lengths, origins).min())


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
