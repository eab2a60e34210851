"""Rows, or their states, whose new aggregates take rows of a history: by key and time, in the order of arrival."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from muntin.streams.change import Missing, entries_of, named, under
from muntin.streams.rows.states import STATE, StateStore, keeping
from muntin.types import Array

if TYPE_CHECKING:
    from muntin.streams.rows.rows import Rows
    from muntin.streams.strategy import Batch

_STATES = f"rows.beside.{STATE}"


def completed(rows: Rows, batch: Batch, missing: Missing) -> dict[str, Array]:
    """Return the arrays of rows with the columns that only a history has. O(state + rows)."""
    saved = rows.save()
    arrays = dict(saved)
    for i, group in enumerate(rows.groups):
        mine = under(f"{i}.", saved)
        if isinstance(group.store, StateStore):
            arrays |= named(f"{i}.", {_STATES: _states(group.store, mine, batch, missing)})
        else:
            arrays |= named(f"{i}.", _columns(mine, batch, missing))
    return arrays


def _columns(mine: Mapping[str, Array], batch: Batch, missing: Missing) -> dict[str, Array]:
    """Return the columns that rows lack."""
    keys, times = mine["rows.keys"], mine["rows.times"]
    where = missing.places((keys, times), (batch.keys, batch.times))
    lacking = (where < 0) & (times >= missing.since)
    if lacking.any():
        raise missing.refusal(f"it lacks a row at {missing.shown(int(times[np.argmax(lacking)]))}")
    held, given = np.flatnonzero(where >= 0), where[where >= 0]
    arrays: dict[str, Array] = {}
    for name in missing.columns.intersection(batch.columns):
        column = batch.columns[name]
        values, valid = mine[f"rows.value.{name}"].copy(), np.zeros(len(keys), np.bool_)
        values[held] = column.values[given]
        valid[held] = True if column.valid is None else column.valid[given]
        arrays |= {f"rows.value.{name}": values, f"rows.valid.{name}": valid}
    return arrays


def _states(store: StateStore, mine: Mapping[str, Array], batch: Batch, missing: Missing) -> Array:
    """Return the states of entries, each of all rows from its time up to the next entry's."""
    keys, times, states = mine["rows.keys"], mine["rows.times"], mine[_STATES]
    binding = store.binding
    entry = entries_of(keys, times, batch.keys, batch.times)
    rows = batch.take(np.flatnonzero(entry >= 0))
    entry = entry[entry >= 0]
    lifted = binding.slots(len(entry))
    keeping(binding).lift_rows(binding.inputs(rows.columns, len(entry)), np.ascontiguousarray(rows.times), lifted)
    found = binding.slots(len(states))
    some, firsts = np.unique(entry, return_index=True)
    folded = binding.slots(len(some))
    keeping(binding).fold_runs(lifted, np.arange(len(entry)), firsts, np.append(firsts[1:], len(entry)), folded)
    found[some] = folded
    return missing.joined(states, found, binding.owned_fields)
