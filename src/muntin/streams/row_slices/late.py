"""Rows behind the allowed lateness: each definition judges them, and their row numbers may diverge.

A definition rejects a row if only its final windows would hold it. All its windows that may still change then begin
after the row. So if another definition takes the row, their numbers differ by one from there on, and by no more:
`shifts` counts by how many rows a definition's numbers are behind, for keys where this ever happened (`apart`; the
others have -1). `fresh` counts those since windows were last examined, and `least` is the first row that a definition
took since.

Within one push, a row can make windows final that were never examined, before the next row comes. If their definition
rejects that next row, it is a hole in them. `odd` is the row before which such windows begin, and `holes` (key,
definition, row) lists what to leave out of them; once they have been examined, neither is needed any more.
"""

from __future__ import annotations

from typing import NamedTuple

from muntin.kernels.vocabulary import Ints, kernel
from muntin.streams.blocks import Blocks
from muntin.streams.row_slices.rows import Arriving, Keyed, rows_until

ROW, APART, SHIFTS, FOLDS, SPLITS, HOLES, ACCEPTED = range(7)
"""Indices into the cursor: the current row, keys whose definitions number separately, rows that left a slice, slices
refolded and slices recut, holes, and rows of the current key taken before memory ran out."""
OF_KEY, OF_DEFINITION, OF_ROW = range(3)
"""The columns of a hole."""


class RowWindows(NamedTuple):
    """The definitions of windows by rows, and the progressions of row numbers at which their windows begin or end."""

    lengths: Ints
    everys: Ints
    steps: Ints
    phases: Ints


class Numbers(NamedTuple):
    """The differences of the definitions' numbers, for keys that have any: a line each, indexed by `apart`."""

    apart: Ints
    shifts: Ints
    fresh: Ints
    odd: Ints
    least: Ints


@kernel
def shift_of(numbers: Numbers, key: int, d: int) -> int:
    """Return by how many rows a definition's numbers are behind now."""
    which = numbers.apart[key]
    return int(numbers.shifts[which, d]) if which >= 0 else 0


@kernel
def shift_then(numbers: Numbers, key: int, d: int) -> int:
    """Return by how many rows a definition's numbers were behind when windows were last examined."""
    which = numbers.apart[key]
    return int(numbers.shifts[which, d] - numbers.fresh[which, d]) if which >= 0 else 0


@kernel
def final_rows(keyed: Keyed, numbers: Numbers, key: int, d: int) -> int:
    """Return up to which row windows were final when last examined, in a definition's numbers."""
    return int(keyed.final[key]) - shift_then(numbers, key, d)


@kernel
def first_ending_after(row: int, length: int, every: int) -> int:
    """Return the number of the first window that ends after this row."""
    return max(0, (row - length) // every + 1)


@kernel
def note_row(keyed: Keyed, numbers: Numbers, key: int, at: int) -> None:
    """Record the place of a row that every definition takes."""
    keyed.moved[key] = min(keyed.moved[key], at)
    which = numbers.apart[key]
    if which >= 0:
        for d in range(numbers.shifts.shape[1]):
            numbers.least[which, d] = min(numbers.least[which, d], at - numbers.shifts[which, d])


@kernel
def count_takers(shapes: RowWindows, numbers: Numbers, key: int, at: int, old: int, newest: bool) -> int:
    """Return how many definitions take a row at place `at`, if the windows of the first `old` rows are final."""
    takers = 0
    for d in range(len(shapes.lengths)):
        length, every = shapes.lengths[d], shapes.everys[d]
        shift = shift_of(numbers, key, d)
        begins = every * first_ending_after(old - shift, length, every)
        if at - shift >= begins and not (newest and length == 1):
            takers += 1
    return takers


@kernel
def note_hole(holes: Ints, cursor: Ints, key: int, d: int, row: int) -> None:
    """Record a row that lies within a definition's windows but is not part of them."""
    at = cursor[HOLES]
    holes[at, OF_KEY] = key
    holes[at, OF_DEFINITION] = d
    holes[at, OF_ROW] = row
    cursor[HOLES] = at + 1


@kernel
def part_ways(
    keyed: Keyed, shapes: RowWindows, numbers: Numbers, key: int, at: int, old: int, holes: Ints, cursor: Ints
) -> None:
    """Record a row that some definitions take and others reject."""
    which = numbers.apart[key]
    for d in range(len(shapes.lengths)):
        length, every = shapes.lengths[d], shapes.everys[d]
        shift = numbers.shifts[which, d]
        own = at - shift
        if own >= every * first_ending_after(old - shift, length, every):
            numbers.least[which, d] = min(numbers.least[which, d], own)
        else:
            known = first_ending_after(final_rows(keyed, numbers, key, d), length, every)
            if known * every < own:
                numbers.odd[which, d] = own
                note_hole(holes, cursor, key, d, at)
            numbers.shifts[which, d] += 1
            numbers.fresh[which, d] += 1
    keyed.moved[key] = min(keyed.moved[key], at)
    keyed.torn[key] = 1


@kernel
def number_apart(keyed: Keyed, numbers: Numbers, key: int, cursor: Ints) -> None:
    """Give a key separate numbers per definition, if there is room for one more key."""
    which = cursor[APART]
    cursor[APART] += 1
    numbers.shifts[which, :] = 0
    numbers.fresh[which, :] = 0
    numbers.odd[which, :] = 0
    numbers.least[which, :] = keyed.moved[key]
    numbers.apart[key] = which


@kernel
def judge(
    batch: Arriving,
    times: Ints,
    blocks: Blocks,
    keyed: Keyed,
    shapes: RowWindows,
    numbers: Numbers,
    holes: Ints,
    cursor: Ints,
    limit: int,
    taken: Ints,
) -> bool:
    """Mark which late rows, ordered by key and time, are taken; return whether there was memory for that."""
    order = batch.order
    count = numbers.shifts.shape[1]
    at = cursor[ROW]
    while at < len(order):
        key = batch.keys[order[at]]
        if numbers.apart[key] < 0 and cursor[APART] == len(numbers.shifts):
            cursor[ROW] = at
            return False
        final = rows_until(times, blocks, keyed.gone, key, limit)
        total = keyed.gone[key] + blocks.size[key]
        accepted = cursor[ACCEPTED]
        cursor[ACCEPTED] = 0
        while at < len(order) and batch.keys[order[at]] == key:
            place = rows_until(times, blocks, keyed.gone, key, batch.times[order[at]]) + accepted
            newest = place == total + accepted
            takers = count_takers(shapes, numbers, key, place, final + accepted, newest)
            if takers == count:
                note_row(keyed, numbers, key, place)
            elif takers > 0:
                if cursor[HOLES] + count > len(holes):
                    cursor[ROW] = at
                    cursor[ACCEPTED] = accepted
                    return False
                if numbers.apart[key] < 0:
                    number_apart(keyed, numbers, key, cursor)
                part_ways(keyed, shapes, numbers, key, place, final + accepted, holes, cursor)
            if takers > 0:
                taken[order[at]] = True
                accepted += 1
            at += 1
    cursor[ROW] = at
    return True


NUMBERS = (shift_of, shift_then, final_rows, first_ending_after, note_row)
JUDGE = (count_takers, note_hole, part_ways, number_apart, judge)
