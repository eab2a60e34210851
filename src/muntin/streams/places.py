"""Where saved arrays have what belongs to which aggregate: the one place that knows how to find it there.

Aggregates are fused: the fields of a state are numbered by the place of their aggregate in the query, and several
aggregates may share one. So a snapshot says of each set of arrays which aggregates are in it, and which fields, inputs
and values are whose. A query with the same aggregates in another order finds its own by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.errors import SnapshotError
from muntin.types import OBJECT, Array


@dataclass(frozen=True)
class Places:
    """One set of arrays: their names begin with a prefix, and they belong to aggregates that run together.

    >>> from muntin import agg
    >>> from muntin.aggregations.binding import bind
    >>> from muntin.types import FLOAT64
    >>> asked = {"n": agg.count(), "spread": agg.std("v"), "var": agg.var("v")}
    >>> Places.of("0.", bind(asked, {"v": FLOAT64}), states=("states",)).fields[:3]
    (('p0_value', ('n',)), ('p1_n', ('spread', 'var')), ('p1_mean', ('spread', 'var')))
    """

    prefix: str
    names: tuple[str, ...]
    """The aggregates, in the order in which they were fused."""
    states: tuple[str, ...] = ()
    """The arrays of fused states."""
    fields: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The fields of a fused state, each with the aggregates that it belongs to; numbers if states are objects."""
    inputs: tuple[str, ...] = ()
    """What each of the arrays of inputs is: a column, or a mask of rows."""
    values: tuple[tuple[str, ...], ...] = ()
    """The aggregates of each of the stores of sorted values."""

    @classmethod
    def of(cls, prefix: str, binding: Binding, *, states: tuple[str, ...] = (), rows: bool = False) -> Places:
        """Return the places of the fused states of a binding, with `rows` also of the inputs that are kept of rows."""
        fields = binding.owned_fields if states else ()
        return cls(prefix, binding.names, states, fields, binding.input_names if rows else ())

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> Places:
        """Return the places that `to_json` described."""
        return cls(
            described["prefix"],
            tuple(described["names"]),
            tuple(described.get("states", ())),
            tuple((name, tuple(whose)) for name, whose in described.get("fields", ())),
            tuple(described.get("inputs", ())),
            tuple(map(tuple, described.get("values", ()))),
        )

    def to_json(self) -> dict[str, Any]:
        """Return them for a header, without what is empty."""
        return {name: value for name, value in asdict(self).items() if value or name == "prefix"}

    @property
    def content(self) -> Any:
        """What is in the arrays, whatever the order of the aggregates."""
        words = {name: [field.partition("_")[2] for field in self.fields_of(name)] for name in self.names}
        return words, self.states, set(self.inputs), set(map(frozenset, self.values))

    def fields_of(self, name: str) -> list[str]:
        """Return the fields of one aggregate, in the order of its definition."""
        return [field for field, whose in self.fields if name in whose]


INPUT, VALUES = "rows.input.", "runs."
"""What the names of inputs and of sorted values begin with, behind the prefix of their set; a number follows."""


def moved(arrays: Mapping[str, Array], saved: Sequence[Places], asked: Sequence[Places]) -> dict[str, Array]:
    """Return the arrays of a strategy with everything in the places where another order of aggregates has it.

    Both have the same aggregates. O(1) if nothing moves, else O(state).

    >>> states = np.array([(9, 1)], [("p0_value", "i8"), ("p1_value", "i8")])
    >>> saved = Places("0.", ("hi", "lo"), ("states",), (("p0_value", ("hi",)), ("p1_value", ("lo",))))
    >>> asked = Places("0.", ("lo", "hi"), ("states",), (("p0_value", ("lo",)), ("p1_value", ("hi",))))
    >>> moved({"0.states": states}, [saved], [asked])["0.states"].tolist()
    [(1, 9)]
    """
    if list(saved) == list(asked):
        return dict(arrays)
    of_sets = {name for each in saved for name in arrays if name.startswith(each.prefix)}
    out = {name: array for name, array in arrays.items() if name not in of_sets}
    for mine in asked:
        theirs = _set_of(mine, saved)
        for name, array in arrays.items():
            if name.startswith(theirs.prefix):
                out |= _piece(name.removeprefix(theirs.prefix), array, theirs, mine)
    return out


def _set_of(mine: Places, saved: Iterable[Places]) -> Places:
    for theirs in saved:
        if theirs.content == mine.content:
            return theirs
    raise SnapshotError(
        f"the snapshot was written by a version of muntin that kept {', '.join(mine.names)} otherwise; let that "
        "version finish the stream, or push its rows again"
    )


def _piece(name: str, array: Array, theirs: Places, mine: Places) -> dict[str, Array]:
    """Return one array under its names in another set; none if nothing there has it."""
    if name in theirs.states:
        return {mine.prefix + name: _fused(array, theirs, mine)}
    numbered: tuple[tuple[str, Sequence[Any], Sequence[Any]], ...] = (
        (INPUT, theirs.inputs, mine.inputs),
        (VALUES, [*map(frozenset, theirs.values)], [*map(frozenset, mine.values)]),
    )
    for begin, before, now in numbered:
        if name.startswith(begin):
            number, dot, rest = name.removeprefix(begin).partition(".")
            return {f"{mine.prefix}{begin}{now.index(before[int(number)])}{dot}{rest}": array}
    return {mine.prefix + name: array}


def _fused(states: Array, theirs: Places, mine: Places) -> Array:
    """Return fused states with their fields in another order."""
    source = {field: theirs.fields_of(whose[0])[mine.fields_of(whose[0]).index(field)] for field, whose in mine.fields}
    if states.dtype != OBJECT:
        kinds = [(field, states.dtype[source[field]]) for field in source]
        fused = np.zeros(len(states), np.dtype(kinds, align=True))
        for field, other in source.items():
            fused[field] = states[other]
        return fused
    order = [int(source[field]) for field in source]
    objects = np.full(len(states), None, OBJECT)
    for i, state in enumerate(states):
        objects[i] = None if state is None else tuple(state[place] for place in order)
    return objects
