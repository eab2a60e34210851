"""States of version 2 as states of version 3.

Version 2 kept slices as version 3 does. What it kept of rows it kept otherwise: in a buffer of rows, in slices in row
numbers, and as tiles in such a buffer. And it did not record which aggregate a part of a state belongs to: the states
of aggregates that are fused are in the order of the query, which its header, sorted by names, does not tell. So the
order is found by what the state shows, the fields of fused states and the order of the columns. Where several orders
would read it differently, it is refused, unless the caller vouches that the query has the order that it had.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.errors import SnapshotError
from muntin.query.plan import Plan, Types, resolve
from muntin.query.query import Query
from muntin.snapshots import Snapshot
from muntin.streams.contents import latest_row
from muntin.streams.facts import facts, fingerprint
from muntin.streams.places import INPUT, VALUES, Places
from muntin.streams.rows.from_buffer import rows_from_buffer, tile_types
from muntin.streams.rows.from_counted import fused_sets, states_from_counted
from muntin.streams.rows.in_states import RowStates
from muntin.streams.rows.rows import Rows
from muntin.streams.rows.tiles import Tiles
from muntin.streams.slices.slices import Slices
from muntin.streams.strategy import Strategy
from muntin.types import OBJECT, Array

OLD, NEW = 2, 3
_MOST_PERMUTED = 5
"""Of more aggregates only pairs are swapped: if any other order fits, one of these does."""
_OPTIONS = ("watermark", "allowed_lateness", "partial", "emit_empty", "idle_timeout", "emit_early")
_UNRECORDED = ("ordered",)
_STRATEGIES: dict[str, tuple[str, type[Strategy]]] = {
    "slices": ("slices", Slices),
    "tuples": ("rows", Rows),
    "counted": ("states", RowStates),
    "tiles": ("tiles", Tiles),
}
"""The strategies of version 2, by name, and those that go on with their states."""


def migrated(snapshot: Snapshot, query: Query, types: Types | None, order: Sequence[str] | None = None) -> Snapshot:
    """Return a snapshot of version 2 as one of version 3. O(state).

    `query` is that of the stream, and has its facts; `types` are those of its columns, None before its first row.
    `order` is that in which the snapshot has the aggregates, if it is known. Rejects what cannot go on, by name.
    """
    header = {**snapshot.header, "version": NEW, "query": facts_as_now(snapshot.header["query"], query)}
    known, arrays = header["core"], dict(snapshot.arrays)
    if known is None:
        return replace(snapshot, header=header, fingerprint=fingerprint(header["query"]))
    assert types is not None
    windows = {i: query.windows[i] for i in header["windows"]}
    names = _order(snapshot, query, types, order)
    ordered = replace(query, aggregates={name: query.aggregates[name] for name in names})
    plan = resolve(ordered, types, windows)
    groups, places = [], []
    for i, group in enumerate(known["strategies"]):
        name, strategy = _strategy_for(group, plan)
        prefix = f"{i}."
        held = {each.removeprefix(prefix): arrays.pop(each) for each in list(arrays) if each.startswith(prefix)}
        kept = _kept(group["name"], strategy, held, known["progress"]["watermark"])
        arrays |= {prefix + each: array for each, array in kept.items()}
        groups.append({"name": name, "windows": group["windows"]})
        places.append([place.to_json() for place in strategy.places])
    header["core"] = {**known, "strategies": groups, "places": places, "latest": latest_row(snapshot)}
    return replace(snapshot, header=header, fingerprint=fingerprint(header["query"]), arrays=arrays)


def facts_as_now(saved: Mapping[str, str], query: Query, further: Sequence[str] = _UNRECORDED) -> dict[str, str]:
    """Return the facts of a state of version 2 as this version writes those that are the query's. O(facts).

    Version 2 wrote durations as they were given, and did not record some facts: `further` are those to add.
    """
    now = facts(query)
    before = {f"window {i}": each.fingerprint for i, each in enumerate(query.windows)}
    for name, each in query.aggregates.items():
        before[f"aggregate {name}"] = f"{each.identity} over {', '.join(each.columns)} ({each.fingerprint})"
    before |= {name: repr(getattr(query, name)) for name in (*_OPTIONS, "forget_after")}
    found = {name: now[name] if name in now and text == before.get(name) else text for name, text in saved.items()}
    found |= {name: now[name] for name in further if name in now}
    return {name: found[name] for name in (*(each for each in now if each in found), *(set(found) - set(now)))}


# ------------------------------------------------------------ strategies


def _strategy_for(group: Mapping[str, Any], plan: Plan) -> tuple[str, Any]:
    """Return the name of what goes on with the states of a strategy of version 2, and one of it, empty."""
    name, kind = _STRATEGIES.get(group["name"], (group["name"], None))
    if kind is None:
        raise SnapshotError(
            f"the snapshot has version 2, and was kept by {name}, which this version of muntin does not know; let "
            "the one that wrote it finish the stream, or push its rows again"
        )
    mine = replace(plan, windows={i: plan.windows[i] for i in group["windows"]})
    reason = kind.can(mine)
    if reason is not None:
        raise SnapshotError(
            f"the snapshot has version 2, and its {group['name']} cannot go on: {reason}; let the version that wrote "
            "it finish the stream, or push its rows again"
        )
    return name, kind(mine)


def _kept(name: str, strategy: Any, saved: dict[str, Array], watermark: int) -> dict[str, Array]:
    """Return what a strategy of version 2 kept as its successor keeps it."""
    if name == "slices":
        return saved
    if name == "counted":
        return states_from_counted(strategy, saved, watermark)
    return rows_from_buffer(strategy, saved, tile_types() if name == "tiles" else strategy.plan.types)


# ------------------------------------------------------------ the order of the aggregates


def _order(snapshot: Snapshot, query: Query, types: Types, known: Sequence[str] | None) -> tuple[str, ...]:
    """Return the aggregates in the order in which a snapshot of version 2 has them."""
    given = tuple(query.aggregates)
    orders: Iterable[tuple[str, ...]] = _orders(given) if known is None else [tuple(known)]
    digests = Digests(snapshot.arrays)
    found = {order: _reading(snapshot, query, types, order, digests) for order in orders}
    readings = {order: reading for order, reading in found.items() if reading is not None}
    if not readings:
        what = "in another order" if known is None else f"not in the order {', '.join(known)}"
        raise SnapshotError(
            f"the snapshot has version 2, and its aggregates were {what}, or kept otherwise than this version of "
            "muntin keeps them: put them into the order in which the snapshot was made; or let the version that wrote "
            "it finish the stream, or push its rows again"
        )
    if len(set(readings.values())) > 1:
        raise SnapshotError(_unclear(given, list(readings)))
    return next(iter(readings))


def _unclear(given: tuple[str, ...], orders: list[tuple[str, ...]]) -> str:
    names = sorted({a for order in orders for a, b in zip(orders[0], order, strict=True) if a != b}, key=given.index)
    return (
        "the snapshot has version 2, which does not record the order of the aggregates, and nothing in it tells the "
        f"states of {', '.join(names[:-1])} and {names[-1]} apart. If this query has its aggregates in the order in "
        "which the snapshot was made, convert it by muntin.migrate(snapshot, query); else put them into that order"
    )


def _orders(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield orders of some names, the given one first."""
    if len(names) <= _MOST_PERMUTED:
        yield from itertools.permutations(names)
        return
    yield names
    for a, b in itertools.combinations(range(len(names)), 2):
        swapped = list(names)
        swapped[a], swapped[b] = swapped[b], swapped[a]
        yield tuple(swapped)


def _reading(snapshot: Snapshot, query: Query, types: Types, order: Sequence[str], digests: Digests) -> Any:
    """Return what each aggregate's states are if the aggregates are in an order; None if they cannot be."""
    query = replace(query, aggregates={name: query.aggregates[name] for name in order})
    known = snapshot.header["core"]
    if known["columns"] != list(query.reads):
        return None
    plan = resolve(query, types, {i: query.windows[i] for i in snapshot.header["windows"]})
    found: list[Any] = []
    for i, group in enumerate(known["strategies"]):
        if group["name"] in _FUSED:
            mine = replace(plan, windows={j: plan.windows[j] for j in group["windows"]})
            places, bindings = _FUSED[group["name"]](mine)
            for place, binding in zip(places, bindings, strict=True):
                here = replace(place, prefix=f"{i}.{place.prefix}")
                if not (digests.fit(here, binding) and digests.agree(here, binding)):
                    return None
                found.append(digests.of(here))
    return tuple(sorted(itertools.chain.from_iterable(found)))


def _of_slices(plan: Plan) -> tuple[list[Places], list[Binding]]:
    strategy = Slices(plan)
    return list(strategy.places), [each.binding for each in strategy.sets]


def _of_counted(plan: Plan) -> tuple[list[Places], list[Binding]]:
    sets = fused_sets(plan)
    return [Places.of(f"{i}.", each, states=("row_states",)) for i, each in enumerate(sets)], sets


def _of_tiles(plan: Plan) -> tuple[list[Places], list[Binding]]:
    binding = plan.bind(plan.aggregates, gaps=True)
    return [Places.of("rows.value.", binding, states=("state",))], [binding]


_FUSED: dict[str, Callable[[Plan], tuple[list[Places], list[Binding]]]] = {
    "slices": _of_slices,
    "counted": _of_counted,
    "tiles": _of_tiles,
}
"""Where the strategies of version 2 have states of fused aggregates, and of which; a buffer has rows."""


class Digests:
    """What is in the fields of saved states: the same numbers have the same digest, whosever they are."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        """Take the arrays of a snapshot."""
        self._arrays = arrays
        self._known: dict[tuple[str, str], str] = {}
        self._in_order: dict[tuple[str, str, str, str], bool] = {}

    def of(self, place: Places) -> list[Any]:
        """Return for each aggregate of a set of arrays what its fields, inputs and values hold."""
        found: list[Any] = []
        for name in place.names:
            fields = [self._digest(place.prefix + array, f) for array in place.states for f in place.fields_of(name)]
            found.append((name, place.states, tuple(fields)))
        found += [
            (each, ("rows.input",), (self._digest(f"{place.prefix}{INPUT}{i}", ""),))
            for i, each in enumerate(place.inputs)
        ]
        for i, names in enumerate(place.values):
            begin = f"{place.prefix}{VALUES}{i}."
            held = sorted(each for each in self._arrays if each.startswith(begin))
            found += [(name, (VALUES,), tuple(self._digest(each, "") for each in held)) for name in names]
        return found

    def fit(self, place: Places, binding: Binding) -> bool:
        """Return whether states of a binding can be what was saved of a set."""
        for array in place.states:
            held = self._arrays.get(place.prefix + array)
            if held is None or (held.dtype == OBJECT) == binding.fixed:
                return False
            if not (_are_states(held, binding) if held.dtype == OBJECT else held.dtype.descr == binding.dtype.descr):
                return False
        return all(f"{place.prefix}{INPUT}{i}" in self._arrays for i in range(len(place.inputs)))

    def agree(self, place: Places, binding: Binding) -> bool:
        """Return whether what the states say is possible: see `_contradicted`."""
        if not binding.fixed or not place.states:
            return True
        (array,) = (place.prefix + each for each in place.states)
        return not self._contradicted(place, binding, array)

    def _contradicted(self, place: Places, binding: Binding, array: str) -> bool:
        """Return whether states count other rows than there are, or have extremes of no row, or a minimum > maximum."""
        held, counts = self._arrays[array], self._arrays.get(place.prefix + "count")
        of_column: dict[Any, dict[str, list[str]]] = {}
        for name, each in zip(binding.names, binding.aggregations, strict=True):
            kind, fields = each.identity.partition("(")[0], place.fields_of(name)
            if kind == "agg.count_rows" and counts is not None and not np.array_equal(counts, held[fields[0]]):
                return True
            if kind in _EXTREMES and len(fields) == 2:
                if not _are_extremes(kind, held[fields[0]], held[fields[1]]):
                    return True
                of_column.setdefault((each.columns, each.where, each.skip_nan), {})[kind] = fields
        pairs = (each for each in of_column.values() if len(each) == len(_EXTREMES))
        return any(not self._ascend(array, each["agg.min"], each["agg.max"][0]) for each in pairs)

    def _ascend(self, array: str, least: list[str], greatest: str) -> bool:
        """Return whether one field is nowhere greater than another, where the first one's mask tells of any value."""
        field, mask = least
        known = (array, field, mask, greatest)
        if known not in self._in_order:
            held = self._arrays[array]
            self._in_order[known] = not ((held[field] > held[greatest]) & (held[mask] > 0)).any()
        return self._in_order[known]

    def _digest(self, array: str, field: str) -> str:
        if (array, field) not in self._known:
            held = self._arrays[array]
            if held.dtype == OBJECT:
                values = [each if not field else None if each is None else each[int(field)] for each in held]
                data = repr(values).encode()
            else:
                data = np.ascontiguousarray(held[field] if field else held).tobytes()
            self._known[array, field] = hashlib.sha256(data).hexdigest()
        return self._known[array, field]


def _are_states(held: Array, binding: Binding) -> bool:
    """Return whether objects may be states of a binding: a part with a fixed size is a number, or a tuple of them."""
    masks = len({part.mask for part in binding.parts if part.mask is not None})
    kinds = [part for _, part in binding.states]
    for state in held:
        if state is None:
            continue
        if not isinstance(state, tuple) or len(state) != len(kinds) + masks:
            return False
        for part, value in zip(kinds, state, strict=False):
            if part.fixed and value is not None:
                values = (value,) if part.scalar else value
                if not isinstance(values, tuple) or not all(isinstance(each, _NUMBERS) for each in values):
                    return False
    return True


def _are_extremes(kind: str, values: Array, counts: Array) -> bool:
    """Return whether an extreme of no row is what it must be: the least value there is for a maximum, only for that."""
    if values.dtype.kind not in "fi":
        return True
    lowest = -np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).min
    is_lowest = values[counts == 0] == lowest
    return bool(is_lowest.all()) if kind == "agg.max" else not is_lowest.any()


_EXTREMES = ("agg.min", "agg.max")
_NUMBERS = (int, float, np.generic, np.ndarray)
