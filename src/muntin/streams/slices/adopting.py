"""The slices of a state, as another query goes on with them: with other windows, and with other aggregates.

All sets of a query have their slices at the same places. So a new set has the slices of the others, with blank states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.streams.change import Change, blank, kept_otherwise, named, under
from muntin.streams.places import INPUT, VALUES, Places
from muntin.streams.slices.kept_set import KeptSet
from muntin.streams.slices.object_set import ObjectSet
from muntin.streams.slices.run_set import RunSet
from muntin.streams.slices.shapes import Shapes, ints
from muntin.streams.slices.slice_set import SliceSet
from muntin.types import Array

if TYPE_CHECKING:
    from muntin.streams.slices.slices import Slices

_ROWS = "rows."


def adopted(slices: Slices, saved: Mapping[str, Array], change: Change) -> dict[str, Array]:
    """Return the arrays of a state as `slices`, which are empty, would have saved them. O(state)."""
    shapes, before = slices.shapes, saved["ids"].tolist()
    old_of = {new: old for old, new in change.windows.items()}
    places = ints(before.index(old_of[new]) for new in shapes.ids.tolist())
    timed, was_timed = len(shapes.kinds), len(saved["sinces"])
    gaps = [int(saved["gap"][0]), *shapes.gaps.tolist()]
    arrays = {
        "ids": shapes.ids,
        "sinces": saved["sinces"][places[:timed]],
        "floors": saved["floors"][places[:timed]],
        "gap": ints([min((gap for gap in gaps if gap >= 0), default=-1)]),
        "marks": saved["marks"],
    }
    arrays |= named("own.", _own_edges(shapes, saved, places, was_timed))
    arrays |= named("emitted.", _emitted(under("emitted.", saved), places))
    sessions = [place - was_timed for place in places[timed:].tolist()]
    for i, each in enumerate(slices.sets):
        arrays |= named(f"{i}.", _set(each, saved, change, sessions))
    return arrays


def _own_edges(shapes: Shapes, saved: Mapping[str, Array], places: Array, was_timed: int) -> dict[str, Array]:
    """Return the intervals of user-defined windows that stay: these come after the periodic ones."""
    count, was = len(shapes.own.each), sum(name.startswith("own.") and name.endswith(".lows") for name in saved)
    timed = len(shapes.kinds)
    arrays: dict[str, Array] = {}
    for i, place in enumerate(places[timed - count : timed].tolist()):
        old = place - (was_timed - was)
        arrays |= {f"{i}.{name}": saved[f"own.{old}.{name}"] for name in ("lows", "highs")}
    return arrays


def _emitted(ledger: Mapping[str, Array], places: Array) -> dict[str, Array]:
    """Return the ledger of emitted windows with the definitions that stay, by their new places."""
    definitions = ledger["name1"]
    new = np.full(max(definitions.max(initial=-1), places.max(initial=-1)) + 1, -1, np.int64)
    new[places] = np.arange(len(places))
    kept = np.flatnonzero(new[definitions] >= 0)
    return {name: array[kept] for name, array in ledger.items()} | {"name1": new[definitions[kept]]}


def _set(each: SliceSet, saved: Mapping[str, Array], change: Change, sessions: list[int]) -> dict[str, Array]:
    """Return the slices of a set. All sets of the state have the same ones."""
    lead = under("0.", saved)
    count = len(lead["low"])
    arrays = {name: lead[name] for name in ("keys", "sizes", "low", "high", "merges")}
    if "first" in lead:
        skip = lead["skip"]
        bits = sum(((skip >> old & 1) << new for new, old in enumerate(sessions)), np.zeros(count, np.int64))
        arrays |= {"first": lead["first"], "last": lead["last"], "skip": bits}
    if each.watched or "count" in lead:
        # Changes are told by differences: how many rows there were before nobody asked for it means nothing.
        arrays["count"] = lead["count"] if "count" in lead else np.ones(count, np.int64)
    mine = each.places("")
    theirs = change.set_of(mine.names)
    tagged = _tagged(each, saved, change, mine, count)
    if each.only_counts:
        arrays["states"] = _counts(each, tagged, count)
    else:
        if theirs is not None and (theirs.inputs or theirs.values) and not isinstance(each, KeptSet):
            raise kept_otherwise(theirs.names[0])
        arrays["states"] = change.fused(saved, "states", mine, each.binding, count)
    return arrays | tagged


def _counts(each: SliceSet, tagged: Mapping[str, Array], count: int) -> Array:
    """Return states that only count the rows kept of each slice; beside sorted values nobody reads them."""
    states = each.binding.slots(count)
    rows = np.ones(count, np.int64)
    if isinstance(each, KeptSet):
        rows = np.bincount(tagged[f"{_ROWS}tags"], minlength=int(tagged["named"][0]))[tagged["tag"]]
    for name in states.dtype.names or ():
        states[name] = rows
    return states


def _tagged(each: SliceSet, saved: Mapping[str, Array], change: Change, mine: Places, count: int) -> dict[str, Array]:
    """Return what a set keeps under the tags of its slices, of those of the state that keep the same."""
    if isinstance(each, RunSet):
        kind = "values"
    elif isinstance(each, KeptSet):
        kind = "inputs"
    else:
        return {}
    theirs = change.set_of(mine.names)
    if theirs is not None and not getattr(theirs, kind):
        raise kept_otherwise(theirs.names[0])
    old = {} if theirs is None else under(theirs.prefix, saved)
    names = {"tag": np.arange(count), "unused": ints([]), "named": ints([count])}
    arrays = {name: old.get(name, default) for name, default in names.items()}
    if isinstance(each, RunSet):
        return arrays | _values(each, old, theirs, mine, change)
    arrays |= _rows(each, old, theirs, mine)
    return with_rows_of_nulls(each, arrays, under("0.", saved)) if isinstance(each, ObjectSet) else arrays


def with_rows_of_nulls(each: ObjectSet, arrays: Mapping[str, Array], lead: Mapping[str, Array]) -> dict[str, Array]:
    """Return what a set keeps, with a row of nulls in slices without rows: objects of no rows cannot be combined."""
    bare = np.flatnonzero(~np.isin(arrays["tag"], arrays[f"{_ROWS}tags"]))
    times = lead["last"] if "last" in lead else lead["low"]
    more: dict[str, Array] = {"times": times[bare], "tags": arrays["tag"][bare]}
    more |= {f"input.{i}": blank(like, len(bare)) for i, like in enumerate(each.objects.no_inputs)}
    rows = {name: np.concatenate((arrays.get(_ROWS + name, array[:0]), array)) for name, array in more.items()}
    filled = {**arrays, **named(_ROWS, rows)}
    return filled | {"states": _counts(each, filled, len(filled["tag"]))}


def _values(
    each: RunSet, old: Mapping[str, Array], theirs: Places | None, mine: Places, change: Change
) -> dict[str, Array]:
    """Return the sorted values of columns; no values of those that nothing has read."""
    arrays = {}
    empty = each.runs.save()
    for i, names in enumerate(mine.values):
        wanted = change.kept.intersection(names)
        groups = [] if theirs is None else [j for j, held in enumerate(theirs.values) if wanted.intersection(held)]
        for name in under(f"{i}.", empty):
            arrays[f"{VALUES}{i}.{name}"] = old[f"{VALUES}{groups[0]}.{name}"] if groups else empty[f"{i}.{name}"]
    return arrays


def _rows(each: Any, old: Mapping[str, Array], theirs: Places | None, mine: Places) -> dict[str, Array]:
    """Return the rows of slices, with the columns and masks that a set reads: of new columns all are null."""
    binding = each.objects if isinstance(each, ObjectSet) else each.binding
    held = under(_ROWS, old)
    none = np.zeros(0, np.int64)
    arrays = {name: held.get(name, none) for name in ("times", "tags", "mixed")}
    rows = len(arrays["times"])
    for i, (name, like) in enumerate(zip(mine.inputs, binding.no_inputs, strict=True)):
        known = theirs.inputs.index(name) if theirs is not None and name in theirs.inputs else -1
        arrays[f"input.{i}"] = held[f"input.{known}"] if f"input.{known}" in held else blank(like, rows)
    assert INPUT.startswith(_ROWS)
    return named(_ROWS, arrays)
