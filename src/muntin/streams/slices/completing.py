"""Slices whose new aggregates take rows of a history.

The rows go into blank slices between the same edges. What these have found for new aggregates is put beside what is
held for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from muntin.streams.change import Missing, blank_states, entries_of, named, under
from muntin.streams.places import VALUES, Places
from muntin.streams.rows.states import keeping
from muntin.streams.slices.adopting import with_rows_of_nulls
from muntin.streams.slices.kept_set import KeptSet
from muntin.streams.slices.object_set import ObjectSet
from muntin.streams.slices.run_set import RunSet
from muntin.streams.slices.shapes import ints
from muntin.streams.slices.slice_set import SliceSet, put_states
from muntin.types import Array

if TYPE_CHECKING:
    from muntin.streams.slices.slices import Slices
    from muntin.streams.strategy import Batch

_ROWS = "rows."
_OF_SET = ("states", "tag", "unused", "named")
"""What sets do not share, besides rows and values."""


def completed(slices: Slices, blank: Slices, batch: Batch, missing: Missing) -> dict[str, Array]:
    """Return the arrays of slices with the new aggregates of the rows of a history. O(state + rows).

    `blank` is as `slices` was when it had no slice.
    """
    saved = slices.save()
    empty = {i: each.save() for i, each in enumerate(blank.sets)}
    blank.load(_blanked(saved, empty, blank))
    rows, owners = _inside(under("0.", saved), batch)
    if len(owners):
        if slices.shapes.own.each:
            blank.shapes.own.cover(rows.times)
        for each in blank.sets:
            each.know_keys(int(rows.keys.max()) + 1)
            each.take(rows)
    found = blank.save()
    if not np.array_equal(found["0.low"], saved["0.low"]):
        raise missing.refusal("its rows are not those that the sessions of the state were made of")
    arrays = dict(saved)
    for i, each in enumerate(slices.sets):
        mine, theirs = under(f"{i}.", saved), under(f"{i}.", found)
        if not each.tagged:
            theirs["states"] = _folded(each, rows, owners, len(mine["states"]))
        arrays |= named(f"{i}.", _joined(each, mine, theirs, missing))
    return arrays


def _blanked(saved: Mapping[str, Array], empty: Mapping[int, Mapping[str, Array]], blank: Slices) -> dict[str, Array]:
    """Return the arrays of slices that hold no rows."""
    arrays = dict(saved)
    for i, each in enumerate(blank.sets):
        kept = [name for name in saved if name.startswith((f"{i}.{_ROWS}", f"{i}.{VALUES}"))]
        arrays = {name: array for name, array in arrays.items() if name not in kept}
        arrays |= {f"{i}.{name}": array for name, array in empty[i].items() if name.startswith((_ROWS, VALUES))}
        arrays[f"{i}.states"] = blank_states(each.binding, len(saved[f"{i}.states"]))
    return arrays


def _inside(lead: Mapping[str, Array], batch: Batch) -> tuple[Batch, Array]:
    """Return the rows that lie in slices, of rows by key and time, and their slices. O((slices + rows) log n)."""
    keys = np.repeat(lead["keys"], lead["sizes"])
    begins, ends = (lead["first"], lead["last"] + 1) if "first" in lead else (lead["low"], lead["high"])
    # Rows that a session rejected are in slices of their own, amid others.
    plain = np.flatnonzero(lead["skip"] == 0) if "skip" in lead else np.arange(len(keys))
    entry = entries_of(keys[plain], begins[plain], batch.keys, batch.times)
    held = entry >= 0
    held[held] = batch.times[held] < ends[plain[entry[held]]]
    return batch.take(np.flatnonzero(held)), plain[entry[held]]


def _folded(each: SliceSet, rows: Batch, owners: Array, count: int) -> Array:
    """Return the states of slices, each of its rows. A state of no rows is never put first: objects have none."""
    states = blank_states(each.binding, count)
    kernels, inputs = keeping(each.binding), each.binding.inputs(rows.columns, len(owners))
    lifted = each.binding.slots(len(owners))
    kernels.lift_rows(inputs, np.ascontiguousarray(rows.times), lifted)
    order = np.argsort(owners, kind="stable")
    some, firsts = np.unique(owners[order], return_index=True)
    folded = each.binding.slots(len(some))
    kernels.fold_runs(lifted, order, firsts, np.append(firsts[1:], len(order)), folded)
    put_states(states, some, folded)
    return states


def _joined(
    each: SliceSet, mine: Mapping[str, Array], found: Mapping[str, Array], missing: Missing
) -> dict[str, Array]:
    """Return the arrays of one set."""
    places = each.places("")
    if missing.names.issuperset(places.names):  # nothing of it was held
        whole = {name: array for name, array in found.items() if name.startswith((_ROWS, VALUES)) or name in _OF_SET}
        return with_rows_of_nulls(each, whole, mine) if isinstance(each, ObjectSet) else whole
    if isinstance(each, RunSet):
        new = [i for i, names in enumerate(places.values) if missing.names.issuperset(names)]
        return {n: array for n, array in found.items() if n.startswith(tuple(f"{VALUES}{i}." for i in new))}
    arrays = {}
    if isinstance(each, KeptSet):
        arrays = _rows_with_inputs(mine, found, places, missing)
    if not each.only_counts:
        arrays["states"] = missing.joined(mine["states"], found["states"], places.fields)
    return arrays


def _rows_with_inputs(
    mine: Mapping[str, Array], found: Mapping[str, Array], places: Places, missing: Missing
) -> dict[str, Array]:
    """Return the inputs of rows that are held, with those that only the history has."""
    tags, times = mine[f"{_ROWS}tags"], mine[f"{_ROWS}times"]
    where = missing.places((tags, times), (found[f"{_ROWS}tags"], found[f"{_ROWS}times"]))
    low = mine["low"][np.argsort(mine["tag"])] if len(mine["tag"]) else ints([])
    known = np.sort(mine["tag"])
    begun = low[np.searchsorted(known, tags)] if len(tags) else ints([])
    lacking = (where < 0) & (begun >= missing.since)
    if lacking.any():
        raise missing.refusal(f"it lacks a row at {missing.shown(int(times[np.argmax(lacking)]))}")
    arrays = {}
    for i, name in enumerate(places.inputs):
        given = found.get(f"{_ROWS}input.{i}")
        if given is not None and missing.lacks(name):
            column = mine[f"{_ROWS}input.{i}"].copy()
            column[where >= 0] = given[where[where >= 0]]
            arrays[f"{_ROWS}input.{i}"] = column
    return arrays
