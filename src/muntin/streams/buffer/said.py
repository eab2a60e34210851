"""What a stream has said of windows that may still change: their revisions, and which rows were in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from muntin.types import Array

NAME = ("key", "name_a", "name_b", "name_c")


@dataclass(frozen=True)
class Said:
    """Windows of one definition, column by column; sorted by key and name where they were emitted.

    A name is what tells a window from the others of its definition and key, as three integers.
    """

    key: Array
    name_a: Array
    name_b: Array
    name_c: Array
    start: Array
    end: Array
    low: Array
    high: Array
    """from_row and to_row, or from_value and to_value; zeros for windows that have neither."""
    print: Array
    """A number that tells the rows of the window from other rows."""
    due: Array
    revision: Array
    retracted: Array
    early: Array
    """Whether it was emitted before it was due."""

    def __len__(self) -> int:
        """Return how many windows there are."""
        return len(self.key)

    @classmethod
    def nothing(cls, bounds: type = np.int64) -> Said:
        """Return no windows; the bounds of windows by value may be floats."""
        kinds = {"low": bounds, "high": bounds, "print": np.uint64, "retracted": np.bool_, "early": np.bool_}
        return cls(**{each.name: np.zeros(0, kinds.get(each.name, np.int64)) for each in fields(cls)})

    def take(self, which: Array) -> Said:
        """Return some of the windows."""
        return Said(**{name: array[which] for name, array in self.save().items()})

    def save(self) -> dict[str, Array]:
        """Return the columns by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def load(cls, state: Mapping[str, Array]) -> Said:
        """Return what `save` returned."""
        return cls(**{each.name: state[each.name] for each in fields(cls)})

    def with_windows(self, other: Said) -> Said:
        """Return these and others, sorted."""
        both = Said(**{name: np.concatenate((array, getattr(other, name))) for name, array in self.save().items()})
        return both.take(np.lexsort([getattr(both, name) for name in reversed(NAME)]))


@dataclass(frozen=True)
class News:
    """What to say now."""

    emitted: Array
    """The places, among the windows at hand, of those to emit."""
    revision: Array
    """Their revisions."""
    retracted: Said
    """Windows that are no more, with their new revisions."""
    said: Said
    """What will have been said."""


def compare(said: Said, now: Said, is_due: Array, is_said: Array) -> News:
    """Compare what was said of the windows of some keys with the windows there are now.

    `now` are all windows that may still change; `is_due` tells those that must be said, `is_said` those that may be, if
    they have changed: the others are only said already, and stay as they were said. O(n log n).
    """
    place = matches(said, now)
    known = place >= 0
    old = np.where(known, place, 0)
    changed = ~known
    if len(said):
        changed |= said.retracted[old] | (said.print[old] != now.print)
    emit = np.flatnonzero(is_said & changed)
    revision = np.where(known[emit], said.revision[old[emit]] + 1 if len(said) else 0, 0)
    stays = np.zeros(len(said), np.bool_)
    # A window that was said early and is not due yet is no contradiction; one that was due and no longer is, is gone.
    lasting = known & (is_said | said.early[old] if len(said) else is_said)
    stays[old[lasting]] = True
    gone = np.flatnonzero(~stays & ~said.retracted)
    retracted = said.take(gone)
    retracted = replace(retracted, revision=retracted.revision + 1, retracted=np.ones(len(gone), np.bool_))
    left = said
    if known.any():
        due = said.due.copy()
        due[old[known]] = now.due[known]
        early = said.early.copy()
        early[old[known & is_due]] = False
        left = replace(said, due=due, early=early)
    fresh = now.take(emit)
    fresh = replace(fresh, revision=revision, early=~is_due[emit])
    replaced = np.zeros(len(said), np.bool_)
    replaced[gone] = True
    replaced[old[emit][known[emit]]] = True
    kept = left.take(np.flatnonzero(~replaced))
    return News(emit, revision, retracted, kept.with_windows(retracted).with_windows(fresh))


def matches(said: Said, now: Said) -> Array:
    """Return for each window now its place in what was said, or -1. O(n log n)."""
    place = np.full(len(now), -1, np.int64)
    if not len(said) or not len(now):
        return place
    names = [np.concatenate((getattr(said, name), getattr(now, name))) for name in NAME]
    order = np.lexsort(list(reversed(names)))  # stable: what was said comes before the window of the same name
    same = np.ones(len(order) - 1, np.bool_)
    for column in names:
        same &= column[order[1:]] == column[order[:-1]]
    older, newer = order[:-1][same], order[1:][same]
    place[newer - len(said)] = older
    return place
