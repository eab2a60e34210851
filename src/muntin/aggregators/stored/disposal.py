"""Disposal: deletes chunks that have left the window, except those that the manifest in the store refers to."""

from __future__ import annotations

from functools import partial

from muntin.aggregators.stored.courier import Courier
from muntin.aggregators.stored.ends import LEVELS
from muntin.aggregators.stored.names import Names
from muntin.stores.base import Store, numbered

AT_ONCE = 8
"""How many chunks of a level must have left the window before they are deleted."""


class Disposal:
    """What has been deleted of each level, and what must wait for the next manifest."""

    def __init__(self, courier: Courier, names: Names) -> None:
        self._courier, self._names = courier, names
        self.kept = [0] * LEVELS
        """For each level, the first chunk not deleted."""
        self.deferred: list[list[int]] = []
        """Ranges of chunks to delete after the next manifest: generation, level, start, stop."""
        self._spoken_of = [0] * LEVELS
        """For each level, the chunk after the last one that the manifest refers to."""

    def is_due(self, level: int, number: int) -> bool:
        """Return whether enough chunks before this one can be deleted to be worth it."""
        return number - self.kept[level] >= AT_ONCE

    def drop(self, level: int, number: int) -> None:
        """Delete all chunks before this one: now, or when the manifest no longer refers to them."""
        start, self.kept[level] = self.kept[level], number
        while start < number:
            stop, generation = self._end_of_run(level, start, number), self._names.of(level, start).generation
            if start < self._spoken_of[level]:
                self.deferred.append([generation, level, start, stop])
            else:
                self._delete(generation, level, start, stop)
            start = stop

    def _end_of_run(self, level: int, start: int, stop: int) -> int:
        """Return the end of the chunks with the generation of the first, and the same status in the manifest."""
        generation, known = self._names.of(level, start).generation, self._spoken_of[level]
        for number in range(start + 1, stop):
            if number == known or self._names.of(level, number).generation != generation:
                return number
        return stop

    def manifest_begun(self, tails: list[int]) -> None:
        """Record that a manifest, complete or not, that refers to all chunks before these may be in the store."""
        self._spoken_of = tails

    def manifest_written(self) -> None:
        """Delete the deferred chunks."""
        deferred, self.deferred = self.deferred, []
        for generation, level, start, stop in deferred:
            self._delete(generation, level, start, stop)

    def delete_orphans(self, tails: list[int]) -> None:
        """Delete the chunks that the last owner wrote after its last manifest."""
        for level, start in enumerate(tails):
            series = self._names.series(self._names.generation - 1, level)
            self._courier.later(partial(_sweep, self._courier.store, series, start))

    def _delete(self, generation: int, level: int, start: int, stop: int) -> None:
        series = self._names.series(generation, level)
        if stop == start + 1 and self._courier.withdraw(numbered(series, start)):
            return
        self._courier.later(partial(_delete_range, self._courier.store, series, start, stop))


def _delete_range(store: Store, series: bytes, start: int, stop: int) -> None:
    store.delete_range(series, start, stop)


def _sweep(store: Store, series: bytes, start: int) -> None:
    """Delete chunks until none is found."""
    while store.delete_range(series, start, start + 64):
        start += 64
