"""What becomes of a state when another query goes on with it, as strategies see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.errors import SnapshotError
from muntin.streams.emitted import places_of
from muntin.streams.places import Places
from muntin.streams.rows.states import keeping
from muntin.types import OBJECT, Array


@dataclass(frozen=True)
class Change:
    """How a strategy differs from the one whose state it goes on with."""

    windows: Mapping[int, int]
    """The windows that stay: their old ids, and the new ones."""
    kept: frozenset[str]
    """The aggregates that stay; others of the same name are new."""
    places: Sequence[Places]
    """Where the state has what belongs to which aggregate."""
    watermark: int
    lateness: int
    """How late rows came to the query of the state."""
    early: bool
    """Whether that emitted windows before they were due."""

    def set_of(self, names: Sequence[str]) -> Places | None:
        """Return where the state has some of these aggregates, which run together; None if it has none of them."""
        wanted = self.kept.intersection(names)
        return next((each for each in self.places if wanted.intersection(each.names)), None)

    def fused(self, saved: Mapping[str, Array], name: str, mine: Places, binding: Binding, count: int) -> Array:
        """Return `count` fused states, found under a name in the sets of a state: those of new aggregates are blank.

        Blank states are of rows that came before their aggregate. They say nothing, and nobody asks them: what begins
        before the aggregate is null. O(states).

        >>> from muntin import agg
        >>> from muntin.aggregations.binding import bind
        >>> from muntin.types import INT64
        >>> old, new = (bind({n: agg.max("v") if n == "s" else agg.count() for n in each}, {"v": INT64})
        ...             for each in ("s", "ns"))
        >>> saved = {"states": np.array([(7, 1), (8, 1)], old.dtype)}
        >>> change = Change({}, frozenset("s"), [Places.of("", old, states=("states",))], 0, 0, False)
        >>> change.fused(saved, "states", Places.of("", new, states=("states",)), new, 2).tolist()
        [(0, 7, 1), (0, 8, 1)]
        """
        states = binding.slots(count)
        sources = {field: self._source(mine, field, whose) for field, whose in mine.fields}
        if binding.fixed:
            for field, source in sources.items():
                if source is not None:
                    prefix, other = source
                    states[field] = saved[prefix + name][other]
            return states
        states = blank_states(binding, count)
        known = {int(f): _objects(saved[at[0] + name], int(at[1])) for f, at in sources.items() if at is not None}
        for i, nothing in enumerate(states if known else ()):
            states[i] = tuple(known[f][i] if f in known else each for f, each in enumerate(nothing))
        return states

    def _source(self, mine: Places, field: str, whose: tuple[str, ...]) -> tuple[str, str] | None:
        """Return the prefix of a set of the state and the field there that a field of other states comes from."""
        name = next((each for each in whose if each in self.kept), None)
        if name is None:
            return None
        theirs = next((each for each in self.places if name in each.names), None)
        if theirs is None or len(theirs.fields_of(name)) != len(mine.fields_of(name)):
            raise kept_otherwise(name)
        return theirs.prefix, theirs.fields_of(name)[mine.fields_of(name).index(field)]


def kept_otherwise(name: str) -> SnapshotError:
    """Return the error for an aggregate whose state has another form than that which would go on with it."""
    return SnapshotError(
        f"the aggregate {name!r} is kept otherwise beside the windows and aggregates of this query than in the state; "
        "change fewer of them at once, or give the new one another name"
    )


def _objects(states: Array, place: int) -> list[object]:
    if states.dtype != OBJECT:
        raise SnapshotError("a state of numbers cannot go on as one of Python objects")
    return [None if state is None else state[place] for state in states]


def blank_states(binding: Binding, count: int) -> Array:
    """Return states of no rows. O(count).

    Objects have none: theirs are of a row of nulls, one for each, since they may note further rows.
    """
    states = binding.slots(count)
    if not binding.fixed:
        inputs = tuple(blank(like, count) for like in binding.no_inputs)
        keeping(binding).lift_rows(inputs, np.zeros(count, np.int64), states)
    return states


def under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays under a prefix, with the prefix removed from their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def named(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays with a prefix before their names."""
    return {prefix + name: array for name, array in arrays.items()}


def blank(like: Array, count: int) -> Array:
    """Return blank values of the type of others: numbers are 0, objects None."""
    return np.full(count, None, OBJECT) if like.dtype == OBJECT else np.zeros(count, like.dtype)


@dataclass(frozen=True)
class Missing:
    """What a history completes: aggregates that came later than the rows that are held."""

    names: frozenset[str]
    columns: frozenset[str]
    """The columns that only these read."""
    since: int
    """The first time of the history; earlier rows are not in it."""
    shown: Callable[[int], Any]
    """Returns a time as its column has it."""

    def lacks(self, described: str) -> bool:
        """Return whether rows that are held lack one of their inputs, a column or a mask, see `Places.inputs`."""
        return any(f"column {name}" == described or f" {name}" in described for name in self.columns)

    def places(self, held: tuple[Array, Array], given: tuple[Array, Array]) -> Array:
        """Return which given row each held one is, by owners and times in order of arrival; -1 if it is not there.

        Of rows with the same owner and time the last ones are held. O(n log n).

        >>> missing = Missing(frozenset("s"), frozenset("v"), 0, str)
        >>> missing.places((np.array([7, 7]), np.array([1, 2])), (np.array([7, 7, 7]), np.array([1, 1, 2])))
        array([1, 2])
        """
        return places_of((*given, _from_last(*given)), (*held, _from_last(*held)))

    def joined(self, states: Array, found: Array, fields: Sequence[tuple[str, tuple[str, ...]]]) -> Array:
        """Return fused states with the fields that are of new aggregates alone taken from others. O(states)."""
        new = [field for field, whose in fields if self.names.issuperset(whose)]
        if states.dtype != OBJECT:
            mixed = states.copy()
            for field in new:
                mixed[field] = found[field]
            return mixed
        chosen = set(map(int, new))
        mixed = np.full(len(states), None, OBJECT)
        for i, (mine, theirs) in enumerate(zip(states, found, strict=True)):
            if mine is not None and theirs is not None:
                mixed[i] = tuple(theirs[at] if at in chosen else value for at, value in enumerate(mine))
            else:
                mixed[i] = mine
        return mixed

    def refusal(self, why: str) -> SnapshotError:
        """Return the error for a history that does not fit."""
        names = ", ".join(sorted(self.names))
        return SnapshotError(
            f"the history cannot complete {names}: {why}. Give all rows that the stream has taken since a time, and no "
            "others; or leave history= out: then what is new is null in windows that had begun"
        )


def _from_last(owners: Array, times: Array) -> Array:
    """Return the number of rows of the same owner and time behind each row."""
    order = np.lexsort((np.arange(len(times)), times, owners))
    same = (owners[order][1:] == owners[order][:-1]) & (times[order][1:] == times[order][:-1])
    ends = np.append(np.flatnonzero(~same), len(order) - 1) if len(order) else np.zeros(0, np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = ends[np.searchsorted(ends, np.arange(len(order)))] - np.arange(len(order))
    return rank


def entries_of(keys: Array, begins: Array, row_keys: Array, times: Array) -> Array:
    """Return the last of its key's entries that begins at or before each row; -1 if there is none. O(n log n).

    >>> entries_of(np.array([0, 0, 1]), np.array([3, 7, 5]), np.array([0, 0, 1]), np.array([1, 8, 5]))
    array([-1,  1,  2])
    """
    owners, at = np.concatenate((keys, row_keys)), np.concatenate((begins, times))
    is_row = np.arange(len(at)) >= len(keys)
    order = np.lexsort((is_row, at, owners))
    last = np.maximum.accumulate(np.where(is_row[order], -1, np.arange(len(order))))[is_row[order]]
    found = np.where(last >= 0, order[last], -1)  # an entry of any key
    found[owners[found] != owners[order[is_row[order]]]] = -1
    entries = np.empty(len(times), np.int64)
    entries[order[is_row[order]] - len(keys)] = found
    return entries
