"""Kept rows, chained by slice: each links to the row that came to its slice before it.

    of a row     older              the row before it in the same slice; -1: there is none
    of a tag     newest, oldest     the ends of its chain
                 latest, count      the greatest time in it; how many rows
                 mixed              whether they did not come in order, so that the state of the slice is not theirs

Merging two slices concatenates their chains, so a chain need not be in order after a merge.
"""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    State,
    combine,
    emit,
    hold,
    kernel,
    lift,
    load,
    store,
)


@kernel
def chain_rows(tags: Ints, times: Ints, begin: int, chains: Any) -> None:
    """Append new rows, numbered from `begin` on, to the chains of their tags."""
    older, newest, oldest, latest, count, mixed = chains
    for i in range(len(tags)):
        tag = tags[i]
        row = begin + i
        if count[tag] == 0:
            older[row] = -1
            oldest[tag] = row
            latest[tag] = times[i]
        else:
            older[row] = newest[tag]
            if times[i] < latest[tag]:
                mixed[tag] = 1
            latest[tag] = max(latest[tag], times[i])
        newest[tag] = row
        count[tag] += 1


@kernel
def join_chains(into: Ints, from_: Ints, mixes: int, chains: Any) -> None:
    """Move the rows of tags to others, pair by pair; `mixes` is 1 if rows that came meanwhile may lie between."""
    older, newest, oldest, latest, count, mixed = chains
    for i in range(len(into)):
        to = into[i]
        tag = from_[i]
        older[oldest[tag]] = newest[to]
        newest[to] = newest[tag]
        latest[to] = max(latest[to], latest[tag])
        count[to] += count[tag]
        mixed[to] |= mixed[tag] | mixes
        count[tag] = 0
        mixed[tag] = 0


@kernel
def gather_rows(tags: Ints, chains: Any, rows: Ints) -> None:
    """Write the rows of tags, tag by tag, newest first."""
    older, newest, _, _, count, _ = chains
    at = 0
    for i in range(len(tags)):
        row = newest[tags[i]]
        for _ in range(count[tags[i]]):
            rows[at] = row
            row = older[row]
            at += 1


CHAINS = (chain_rows, join_chains, gather_rows)


@kernel
def fold_of_rows(columns: Columns, times: Ints, order: Ints, begin: int, end: int) -> State:
    """Return the state of the rows order[begin:end], at least one."""
    state = hold(lift(columns, times, order[begin]))
    for i in range(begin + 1, end):
        state = combine(state, lift(columns, times, order[i]))
    return state


@kernel
def fold_slices(columns: Columns, times: Ints, order: Ints, ends: Ints, states: Slots, slots: Ints) -> None:
    """Fold slices from their rows: the i-th has the rows order[ends[i - 1]:ends[i]]."""
    begin = 0
    for i in range(len(ends)):
        store(states, slots[i], fold_of_rows(columns, times, order, begin, ends[i]))
        begin = ends[i]


@kernel
def answer_from_rows(columns: Columns, times: Ints, order: Ints, ends: Ints, outputs: Outputs, places: Ints) -> None:
    """Answer windows from their rows: the i-th has the rows order[ends[i - 1]:ends[i]]."""
    begin = 0
    for i in range(len(ends)):
        emit(outputs, places[i], fold_of_rows(columns, times, order, begin, ends[i]))
        begin = ends[i]


FOLDS = (fold_of_rows, fold_slices, answer_from_rows)


@kernel
def fold_of_rows_by_halves(columns: Columns, times: Ints, order: Ints, begin: int, end: int) -> State:
    """Return the same by halving: states that grow with their rows are copied O(log n) times, not n."""
    if end - begin == 1:
        return hold(lift(columns, times, order[begin]))
    middle = (begin + end) >> 1
    older = fold_of_rows_by_halves(columns, times, order, begin, middle)
    return combine(older, fold_of_rows_by_halves(columns, times, order, middle, end))


@kernel
def fold_of_states(states: Slots, tags: Ints, begin: int, end: int) -> State:
    """Return the state of the slices tags[begin:end], by halving."""
    if end - begin == 1:
        return load(states, tags[begin])
    middle = (begin + end) >> 1
    return combine(fold_of_states(states, tags, begin, middle), fold_of_states(states, tags, middle, end))


@kernel
def fold_tags(columns: Columns, times: Ints, order: Ints, ends: Ints, states: Slots, tags: Ints) -> None:
    """Fold slices by their tags: the i-th has the rows order[ends[i - 1]:ends[i]]."""
    begin = 0
    for i in range(len(ends)):
        store(states, tags[i], fold_of_rows_by_halves(columns, times, order, begin, ends[i]))
        begin = ends[i]


@kernel
def answer_from_tags(states: Slots, tags: Ints, first: Ints, last: Ints, outputs: Outputs) -> None:
    """Answer windows from the states of their slices: the i-th has tags[first[i]:last[i]]."""
    for i in range(len(first)):
        emit(outputs, i, fold_of_states(states, tags, first[i], last[i]))


@kernel
def answer_by_halves(columns: Columns, times: Ints, order: Ints, ends: Ints, outputs: Outputs, places: Ints) -> None:
    """Answer windows from their rows: the i-th has the rows order[ends[i - 1]:ends[i]]."""
    begin = 0
    for i in range(len(ends)):
        emit(outputs, places[i], fold_of_rows_by_halves(columns, times, order, begin, ends[i]))
        begin = ends[i]


HALVES = (fold_of_rows_by_halves, fold_of_states, fold_tags, answer_from_tags, answer_by_halves)
