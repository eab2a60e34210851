"""The ledger of emitted windows: the last emission of each window that may still change.

Every strategy keeps one. A window whose rows have changed is emitted with its next revision; one that no longer exists
is retracted; one whose rows are the same keeps its last emission. Final windows leave the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from muntin.types import Array

_NAME = "name"


@dataclass(frozen=True)
class EmittedWindows:
    """Windows as they were last emitted, column by column, sorted by their names.

    >>> ledger = EmittedWindows.of((np.array([3, 5]),), content=np.array([10, 20]))
    >>> now = EmittedWindows.of((np.array([5, 7]),), content=np.array([21, 30]))
    >>> changes = ledger.changes(now)
    >>> changes.emitted.names[0], changes.emitted.revision, changes.retracted.names[0]
    (array([5, 7]), array([1, 0]), array([3]))
    >>> ledger.with_changes(changes).retracted
    array([ True, False, False])
    """

    names: tuple[Array, ...]
    """The identity of a window, as integers: its key first, then its definition, bounds and the like."""
    content: Array
    """A number that changes with the rows of a window."""
    revision: Array
    retracted: Array
    facts: Mapping[str, Array]
    """What else the owner records about an emitted window."""

    @classmethod
    def of(cls, names: tuple[Array, ...], content: Array, **facts: Array) -> EmittedWindows:
        """Return windows as emitted for the first time."""
        count = len(content)
        return cls(names, content, np.zeros(count, np.int64), np.zeros(count, np.bool_), facts)

    @classmethod
    def none(cls, names: int, content: type = np.int64, **facts: type) -> EmittedWindows:
        """Return an empty ledger with columns of these types; a name has `names` integers."""
        empty: dict[str, Array] = {name: np.zeros(0, kind) for name, kind in facts.items()}
        return cls.of(tuple(np.zeros(0, np.int64) for _ in range(names)), np.zeros(0, content), **empty)

    def __len__(self) -> int:
        """Return how many windows there are."""
        return len(self.content)

    @property
    def keys(self) -> Array:
        """The key of each window."""
        return self.names[0]

    # ------------------------------------------------------------ changes

    def places_of(self, windows: EmittedWindows) -> Array:
        """Return the place of each window in this ledger, or -1. O(n log n)."""
        return places_of(self.names, windows.names)

    def numbered(self, windows: EmittedWindows) -> EmittedWindows:
        """Return windows with the revision that follows the one in the ledger, if they are in it. O(n log n)."""
        places = self.places_of(windows)
        known = np.flatnonzero(places >= 0)
        revision = windows.revision.copy()
        revision[known] = self.revision[places[known]] + 1
        return replace(windows, revision=revision)

    def changes(
        self,
        now: EmittedWindows,
        may_emit: Array | None = None,
        stays: Array | None = None,
        places: Array | None = None,
    ) -> Changes:
        """Return what to emit and what to retract, by comparing the ledger with the current windows. O(n log n).

        `may_emit` marks the windows in `now` that may be emitted if they have changed; all by default. `stays` marks
        the windows of the ledger that must not be retracted; those in `now` by default. `places` is the result of
        `places_of(now)`, if the caller has it.
        """
        places = self.places_of(now) if places is None else places
        known = np.flatnonzero(places >= 0)
        changed = np.ones(len(now), np.bool_)
        mine = places[known]
        changed[known] = self.retracted[mine] | (self.content[mine] != now.content[known])
        emitted = np.flatnonzero(changed if may_emit is None else changed & may_emit)
        revision = np.zeros(len(now), np.int64)
        revision[known] = self.revision[mine] + 1
        if stays is None:
            stays = np.zeros(len(self), np.bool_)
            stays[mine] = True
        gone = self.take(np.flatnonzero(~stays & ~self.retracted))
        return Changes(
            emitted,
            replace(now.take(emitted), revision=revision[emitted]),
            replace(gone, revision=gone.revision + 1, retracted=np.ones(len(gone), np.bool_)),
        )

    # ------------------------------------------------------------ contents of the ledger

    def take(self, which: Array) -> EmittedWindows:
        """Return some of the windows, by their places or a mask."""
        names = tuple(name[which] for name in self.names)
        facts = {name: array[which] for name, array in self.facts.items()}
        return EmittedWindows(names, self.content[which], self.revision[which], self.retracted[which], facts)

    def keep(self, kept: Array) -> EmittedWindows:
        """Return the ledger without final windows: `kept` marks those that may still change."""
        return self if kept.all() else self.take(np.flatnonzero(kept))

    def with_windows(self, windows: EmittedWindows) -> EmittedWindows:
        """Return the ledger with these emissions, which replace those of the same names. O(n log n)."""
        if not len(windows):
            return self
        names = tuple(np.concatenate(pair) for pair in zip(self.names, windows.names, strict=True))
        both = EmittedWindows(
            names,
            np.concatenate((self.content, windows.content)),
            np.concatenate((self.revision, windows.revision)),
            np.concatenate((self.retracted, windows.retracted)),
            {name: np.concatenate((array, windows.facts[name])) for name, array in self.facts.items()},
        )
        order = _order(names)  # stable: a window comes after its last emission
        last = np.append(~_same_as_next(names, order), True)
        return both.take(order[last])

    def with_changes(self, changes: Changes) -> EmittedWindows:
        """Return the ledger after these changes are emitted."""
        return self.with_windows(changes.retracted).with_windows(changes.emitted)

    def with_facts(self, places: Array, **facts: Array) -> EmittedWindows:
        """Return the ledger with new facts for the windows at `places`."""
        updated = dict(self.facts)
        for name, values in facts.items():
            updated[name] = updated[name].copy()
            updated[name][places] = values
        return replace(self, facts=updated)

    # ------------------------------------------------------------ state

    def save(self) -> dict[str, Array]:
        """Return the columns by name."""
        names = {f"{_NAME}{i}": name for i, name in enumerate(self.names)}
        rest = {"content": self.content, "revision": self.revision, "retracted": self.retracted}
        return {**names, **rest, **self.facts}

    def load(self, state: Mapping[str, Array]) -> EmittedWindows:
        """Return the ledger that `save` saved, with the columns of this one."""
        names = tuple(state[f"{_NAME}{i}"] for i in range(len(self.names)))
        facts = {name: state[name] for name in self.facts}
        return EmittedWindows(names, state["content"], state["revision"], state["retracted"], facts)


@dataclass(frozen=True)
class Changes:
    """What to emit and to retract, with the revisions of both."""

    windows: Array
    """The places of the emitted windows among those compared."""
    emitted: EmittedWindows
    retracted: EmittedWindows

    def numbered_by(self, ledger: EmittedWindows) -> Changes:
        """Return the changes with the revisions that follow those in a ledger, for windows in it."""
        return Changes(self.windows, ledger.numbered(self.emitted), ledger.numbered(self.retracted))


def places_of(known: tuple[Array, ...], wanted: tuple[Array, ...]) -> Array:
    """Return the place of each wanted name among the known ones, which are distinct, or -1. O(n log n).

    >>> places_of((np.array([4, 2]), np.array([0, 1])), (np.array([2, 4]), np.array([1, 1])))
    array([ 1, -1])
    """
    count = len(known[0])
    places = np.full(len(wanted[0]), -1, np.int64)
    if not count or not len(places):
        return places
    names = tuple(np.concatenate(pair) for pair in zip(known, wanted, strict=True))
    order = _order(names)  # stable: a known name comes before the wanted one
    same = np.flatnonzero(_same_as_next(names, order))
    places[order[same + 1] - count] = order[same]
    return places


def _order(names: tuple[Array, ...]) -> Array:
    return np.lexsort(names[::-1])


def _same_as_next(names: tuple[Array, ...], order: Array) -> Array:
    same = np.ones(len(order) - 1, np.bool_)
    for name in names:
        same &= name[order[1:]] == name[order[:-1]]
    return same
