"""The last emissions of windows that may still change, in order: found, revised and dropped without touching others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muntin.durations import END_OF_TIME
from muntin.errors import InvariantError
from muntin.streams.emitted import Changes, EmittedWindows
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.store import RowStore
from muntin.types import Array

NAMES = ("name1", "name2", "name3")
_FACTS: dict[str, type] = {"start": np.int64, "end": np.int64, "due": np.int64, "order": np.int64, "early": np.bool_}


class Ledger:
    """The last emissions of windows, in the tree of a `RowStore`: its times are their order.

    A window is a key and three numbers, its name. `order` is where it is looked for: windows that a row can change are
    in one stretch of the order.
    """

    def __init__(self, number: type) -> None:
        self._store = RowStore({}, ())
        facts: dict[str, type] = _FACTS | {"low": number, "high": number}
        own: dict[str, type] = {"content": np.int64, "revision": np.int64, "retracted": np.bool_, "final": np.int64}
        self._facts = tuple(facts)
        names: dict[str, type] = dict.fromkeys(NAMES, np.int64)
        self._store.beside = {name: np.zeros(0, kind) for name, kind in (names | facts | own).items()}

    def __len__(self) -> int:
        """Return how many windows there are."""
        return len(self._store)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self._store.nbytes

    def within(self, spans: Spans, settled: int) -> tuple[Array, EmittedWindows, Array]:
        """Return the windows in stretches of the order, their places, and which were not final by `settled`.

        O(log n) for each stretch, and O(1) for each window in it.
        """
        owners, places = self._store.grown_to_fit(2, self._store.kernels.entries_within, *spans)
        held = {name: array[places] for name, array in self._store.beside.items()}
        names = (owners, *(held[name] for name in NAMES))
        facts = {name: held[name] for name in self._facts}
        windows = EmittedWindows(names, held["content"], held["revision"], held["retracted"], facts)
        return places, windows, held["final"] > settled

    def note(self, places: Array, held: EmittedWindows, matches: Array, changes: Changes, gone: Array) -> None:
        """Note changes of the windows at some places.

        `held` are these windows with their facts of now; `matches` says which of them each emitted one is, -1 for a new
        one, and `gone` which of them are the retracted ones.
        """
        beside = self._store.beside
        for name in self._facts:
            beside[name][places] = held.facts[name]
        final = np.where(held.retracted, np.minimum(held.facts["due"], held.facts["end"]), held.facts["due"])
        beside["final"][places] = final
        self._overwrite(places[gone], changes.retracted)
        known = matches >= 0
        self._overwrite(places[matches[known]], changes.emitted.take(known))
        self._insert(changes.emitted.take(~known))

    def _overwrite(self, places: Array, windows: EmittedWindows) -> None:
        for name, numbers in self._columns(windows).items():
            self._store.beside[name][places] = numbers

    def _insert(self, windows: EmittedWindows) -> None:
        if len(windows):
            windows = windows.take(np.lexsort((windows.facts["order"], windows.keys)))
            self._store.insert(windows.keys, windows.facts["order"], {}, self._columns(windows))

    def _columns(self, windows: EmittedWindows) -> dict[str, Array]:
        due, end = windows.facts["due"], windows.facts["end"]
        return {
            **dict(zip(NAMES, windows.names[1:], strict=True)),
            **windows.facts,
            "content": windows.content,
            "revision": windows.revision,
            "retracted": windows.retracted,
            # A retracted window leaves when one of that name cannot come back.
            "final": np.where(windows.retracted, np.minimum(due, end), due),
        }

    def settle(self, keys: Array, settled: int) -> Array:
        """Drop the first windows of some keys that are final; return when the next of each is. O(1) for each."""
        counts, wake = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        store = self._store
        store.kernels.count_settled(store.tree, keys, store.beside["final"], settled, counts, wake)
        store.evict(keys, counts)
        return wake

    def forget(self, keys: Array) -> None:
        """Drop all windows of some keys."""
        self._store.evict(keys, np.full(len(keys), END_OF_TIME))

    @property
    def keys(self) -> Array:
        """The keys that have windows, ascending."""
        return self._store.present

    # ------------------------------------------------------------ state

    def save(self) -> dict[str, Array]:
        """Return the windows as arrays by name."""
        return self._store.save()

    def load(self, state: Mapping[str, Any]) -> None:
        """Replace the windows by those that `save` returned."""
        self._store.load(state)

    def check(self) -> None:
        """Raise `InvariantError` if the windows are inconsistent. O(n)."""
        self._store.check()
        keys, places = self._store.rows()
        beside = self._store.beside
        if not np.array_equal(beside["order"][places], self._store.tree.times[places]):
            raise InvariantError("an emitted window is not where its order says")
        names = {(int(key), *(int(beside[name][at]) for name in NAMES)) for key, at in zip(keys, places, strict=True)}
        if len(names) != len(places):
            raise InvariantError("a window is in the ledger twice")
