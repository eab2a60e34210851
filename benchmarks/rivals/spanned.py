"""Which context-free windows are due, for strategies that answer any stretch of a key's rows.

Rows never leave a window that may still change, so that a window has changed if it holds more rows than it did when it
was last emitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.types import Array
from muntin.windows.kinds.context_free import ContextFree
from rivals.numbered import banks


@dataclass(frozen=True)
class Candidates:
    """Windows of one key that may have to be emitted."""

    ids: Array
    numbers: Array
    start: Array
    end: Array
    periodic: Array
    """Whether the window is also emitted without rows, where those are asked for."""

    def pick(self, places: Array) -> Candidates:
        """Return some of them."""
        return Candidates(*(each[places] for each in vars(self).values()))


class Spanned:
    """Which windows of each key were emitted, and which of its rows are new."""

    def __init__(self, plan: Plan, windows: Mapping[int, ContextFree]) -> None:
        self.plan = plan
        self.banks = banks(windows)
        self.watermark = BEFORE_TIME
        self.changed: dict[int, int] = {}
        """The earliest time of the rows that each key got since it was last looked at."""
        self.born: dict[int, Array] = {}
        """The first time that each definition took of a key, where windows without rows are emitted too."""
        self.emitted: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        """Of windows by key, id and number that may change: rows and revision when last emitted, and the end."""

    # ------------------------------------------------------------ rows in

    def takes(self, times: Array, watermark: int) -> Array:
        """Say which rows fall into a window that is not final."""
        limit = max(watermark - self.plan.lateness, BEFORE_TIME)
        taken = np.zeros(len(times), np.bool_)
        if any(bank.periodic for bank in self.banks):
            taken |= times > limit  # each is in some window, which ends after it
        for bank in self.banks:
            if not bank.periodic or not taken.all():
                taken |= bank.last_end(times) > limit
        return taken

    def note(self, key: int, times: Array, watermark: int) -> None:
        """Note that a key got rows of these times, which ascend."""
        self.watermark = max(watermark, self.watermark)  # which a stream may have advanced before its first row
        time = int(times[0])
        self.changed[key] = min(time, self.changed.get(key, time))
        if self.plan.emit_empty:
            limit = max(watermark - self.plan.lateness, BEFORE_TIME)
            firsts = np.concatenate([bank.first_ending_after(times, limit) for bank in self.banks])
            self.born[key] = np.minimum(firsts, self.born.get(key, firsts))

    # ------------------------------------------------------------ windows out

    def keys_to_look_at(self, keys: set[int], watermark: int, *, early: bool) -> set[int]:
        """Return the keys of which a window may be due; most calls pass no end, and are spared a look at every key."""
        if early or self.plan.emit_empty or self._some_end(self.watermark, watermark):
            return keys
        return {key for key, time in self.changed.items() if time < self.watermark}

    def finalizes_some(self, watermark: int) -> bool:
        """Return whether a window may become final by this watermark."""
        return self._some_end(self.watermark - self.plan.lateness, watermark - self.plan.lateness)

    def _some_end(self, since: int, until: int) -> bool:
        """Say whether a window ends in (since, until]: true where nobody knows."""
        if since <= BEFORE_TIME or until >= END_OF_TIME - self.plan.lateness:
            return True
        return any((bank.first_after(since) != bank.first_after(max(until, since))).any() for bank in self.banks)

    def candidates(self, key: int, times: Array, watermark: int, horizon: int, *, early: bool) -> Candidates:
        """Return the windows of a key that are due, of those that may have changed. `times` are those of its leaves."""
        oldest = int(times[0]) if len(times) else END_OF_TIME
        youngest = int(times[-1]) if len(times) else BEFORE_TIME
        low = self.watermark - self.plan.lateness
        if not early:
            low = max(low, min(self.watermark, self.changed.get(key, END_OF_TIME)))
        found, at = [], 0
        for bank in self.banks:
            since: Any = oldest
            if self.plan.emit_empty and bank.periodic:
                since = self.born[key][at : at + len(bank.ids)]
            at += len(bank.ids)
            first = bank.first_after(np.maximum(since, max(low, BEFORE_TIME)))
            last = bank.last_of(youngest) if len(times) else first
            if self.plan.emit_empty and bank.periodic:
                last = np.maximum(last, bank.first_after(np.maximum(since, horizon)))
            if not early and watermark < END_OF_TIME:
                last = np.minimum(last, bank.first_after(np.maximum(since, watermark)))
            found.append(bank.between(first, last, None if self.plan.emit_empty else times))
        return Candidates(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def ending(self, since: int, until: int, times: Array) -> Candidates:
        """Return the windows that end in (since, until], perhaps without some in which none of these times is."""
        found = []
        for bank in self.banks:
            bank.last_of(until)  # so that one's own windows are known as far
            found.append(bank.between(bank.first_after(since), bank.first_after(until), times))
        return Candidates(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def choose(self, key: int, found: Candidates, counts: Array, watermark: int, horizon: int) -> tuple[Array, Array]:
        """Return which candidates are emitted, now that their rows were counted, and their revisions."""
        chosen = counts > 0
        if self.plan.emit_empty:
            chosen |= found.periodic & (found.end <= horizon)
        places = np.flatnonzero(chosen)
        lasting = found.end[places] > watermark - self.plan.lateness
        if not self.emitted and not lasting.any():
            return places, np.zeros(len(places), np.int64)
        kept, revisions = [], []
        for place, stays in zip(places.tolist(), lasting.tolist(), strict=True):
            name = (key, int(found.ids[place]), int(found.numbers[place]))
            rows, revision, _ = self.emitted.get(name, (-1, -1, 0))
            if rows != counts[place]:
                kept.append(place)
                revisions.append(revision + 1)
                if stays:
                    self.emitted[name] = (int(counts[place]), revision + 1, int(found.end[place]))
        return np.array(kept, np.int64), np.array(revisions, np.int64)

    def finalize(self, watermark: int) -> None:
        """Go on to a watermark, and forget the windows that it makes final."""
        self.changed.clear()
        self.watermark = max(watermark, self.watermark)
        limit = self.watermark - self.plan.lateness
        if any(end <= limit for _, _, end in self.emitted.values()):
            self.emitted = {name: each for name, each in self.emitted.items() if each[2] > limit}

    def needed_from(self, times: Array) -> int:
        """Return the earliest time of which rows may still be needed, of a key with leaves of these times."""
        limit = max(self.watermark - self.plan.lateness, int(times[0]))
        return min((bank.start_after(limit) for bank in self.banks), default=END_OF_TIME)

    # ------------------------------------------------------------ looked at from outside

    def keys(self) -> set[int]:
        """Return the keys of which something is remembered."""
        return {*self.born, *(key for key, _, _ in self.emitted)}

    def save(self) -> dict[str, Array]:
        """Return what is remembered as arrays."""
        emitted = [(*name, *each) for name, each in self.emitted.items()]
        return {
            "watermark": np.array([self.watermark], np.int64),
            "changed": np.array(list(self.changed.items()), np.int64).ravel(),
            "born": np.array([(key, *each) for key, each in self.born.items()], np.int64).ravel(),
            "emitted": np.array(emitted, np.int64).ravel(),
            **{f"known{b}": np.array(bank.known, np.int64) for b, bank in enumerate(self.banks)},
        }

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace what is remembered."""
        self.watermark = int(state["watermark"][0])
        self.changed = dict(state["changed"].reshape(-1, 2).tolist())
        definitions = sum(len(bank.ids) for bank in self.banks)
        self.born = {int(each[0]): each[1:].copy() for each in state["born"].reshape(-1, 1 + definitions)}
        emitted = state["emitted"].reshape(-1, 6).tolist()
        self.emitted = {(key, i, number): (rows, revision, end) for key, i, number, rows, revision, end in emitted}
        for b, bank in enumerate(self.banks):
            bank.load(tuple(state[f"known{b}"].tolist()))
