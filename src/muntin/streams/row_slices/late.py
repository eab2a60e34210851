"""Rows that come after the lateness allowed: each definition judges for itself, and they may come to number apart.

A row is refused by a definition where only settled windows of its would hold it. All its windows that may still change
then begin after the row. So if another definition takes the row, the two number the rows from there on differently by
one, and by no more than that: `shifts` says by how many rows a definition's numbers are behind, for the keys where
this ever happened (`apart`, the others have -1). `fresh` are those since windows were last looked at, and `least` is
the first row that a definition took since.

Rows taken in one push can settle windows that were never looked at, before the next row of it comes. Refused by their
definition, that row is a hole in them. `odd` says before which row such windows begin, and `holes` (key, definition,
row) what to leave out of them; once they have been looked at, neither is needed any more.
"""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Ints, kernel
from muntin.streams.row_slices.rows import rows_until

HOLES = 5
"""Where in the cursor is how many holes there are."""


@kernel
def shift_of(numbers: Any, key: int, d: int) -> int:
    """Return by how many rows a definition's numbers are behind."""
    apart, shifts, _, _, _ = numbers
    return int(shifts[apart[key], d]) if apart[key] >= 0 else 0


@kernel
def shift_then(numbers: Any, key: int, d: int) -> int:
    """Return by how many rows a definition's numbers were behind when windows were last looked at."""
    apart, shifts, fresh, _, _ = numbers
    return int(shifts[apart[key], d] - fresh[apart[key], d]) if apart[key] >= 0 else 0


@kernel
def settled_rows(keyed: Any, numbers: Any, key: int, d: int) -> int:
    """Return up to which row windows were settled when they were last looked at, in a definition's numbers."""
    return int(keyed[4][key]) - shift_then(numbers, key, d)


@kernel
def first_ending_after(row: int, length: int, every: int) -> int:
    """Return the number of the first window that ends after so many rows."""
    return max(0, (row - length) // every + 1)


@kernel
def note_row(keyed: Any, numbers: Any, key: int, at: int) -> None:
    """Note where a row came that every definition takes."""
    moved = keyed[5]
    apart, shifts, _, _, least = numbers
    moved[key] = min(moved[key], at)
    if apart[key] >= 0:
        which = apart[key]
        for d in range(shifts.shape[1]):
            least[which, d] = min(least[which, d], at - shifts[which, d])


@kernel
def count_takers(shapes: Any, numbers: Any, key: int, at: int, old: int, newest: bool) -> int:
    """Return how many definitions take a row at this place, of so many rows whose windows are settled."""
    lengths, everys, _, _ = shapes
    takers = 0
    for d in range(len(lengths)):
        shift = shift_of(numbers, key, d)
        begins = everys[d] * first_ending_after(old - shift, lengths[d], everys[d])
        if at - shift >= begins and not (newest and lengths[d] == 1):
            takers += 1
    return takers


@kernel
def part_ways(keyed: Any, shapes: Any, numbers: Any, key: int, at: int, old: int, holes: Any, cursor: Ints) -> None:
    """Note a row that some definitions take and the others refuse."""
    lengths, everys, _, _ = shapes
    apart, shifts, fresh, odd, least = numbers
    which = apart[key]
    for d in range(len(lengths)):
        own = at - shifts[which, d]
        if own >= everys[d] * first_ending_after(old - shifts[which, d], lengths[d], everys[d]):
            least[which, d] = min(least[which, d], own)
        else:
            known = first_ending_after(settled_rows(keyed, numbers, key, d), lengths[d], everys[d])
            if known * everys[d] < own:
                odd[which, d] = own
                holes[cursor[5], 0] = key
                holes[cursor[5], 1] = d
                holes[cursor[5], 2] = at
                cursor[5] += 1
            shifts[which, d] += 1
            fresh[which, d] += 1
    keyed[5][key] = min(keyed[5][key], at)
    keyed[6][key] = 1


@kernel
def judge(
    batch: Any,
    rows: Any,
    blocks: Any,
    keyed: Any,
    shapes: Any,
    numbers: Any,
    holes: Any,
    cursor: Ints,
    limit: int,
    taken: Any,
) -> bool:
    """Note which late rows, in the order of key and time, are taken; say whether there was memory for that."""
    keys, times, order = batch
    gone, moved = keyed[0], keyed[5]
    apart, shifts, fresh, odd, least = numbers
    count = shifts.shape[1]
    at = cursor[0]
    while at < len(order):
        key = keys[order[at]]
        if apart[key] < 0 and cursor[1] == len(shifts):
            cursor[0] = at
            return False
        settled = rows_until(rows, blocks, gone, key, limit)
        total = gone[key] + blocks[3][key]
        accepted = cursor[6]  # of this key, before memory ran out
        cursor[6] = 0
        while at < len(order) and keys[order[at]] == key:
            place = rows_until(rows, blocks, gone, key, times[order[at]]) + accepted
            newest = place == total + accepted
            takers = count_takers(shapes, numbers, key, place, settled + accepted, newest)
            if takers == count:
                note_row(keyed, numbers, key, place)
            elif takers > 0:
                if cursor[5] + count > len(holes):
                    cursor[0] = at
                    cursor[6] = accepted
                    return False
                if apart[key] < 0:
                    which = cursor[1]
                    cursor[1] += 1
                    shifts[which, :] = 0
                    fresh[which, :] = 0
                    odd[which, :] = 0
                    least[which, :] = moved[key]
                    apart[key] = which
                part_ways(keyed, shapes, numbers, key, place, settled + accepted, holes, cursor)
            if takers > 0:
                taken[order[at]] = True
                accepted += 1
            at += 1
    cursor[0] = at
    return True


NUMBERS = (shift_of, shift_then, settled_rows, first_ending_after, note_row)
JUDGE = (count_takers, part_ways, judge)
