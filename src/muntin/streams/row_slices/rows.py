"""The rows of keys that may still move, or are needed: each key's side by side, by time and among equals by arrival.

    block of a key     base .......... base + head ........ head + size ........ base + room
    a slot             free            row `gone` ......... the newest one       free

A row is its time and its state, as `lift` made it. New rows are merged from the back, so that only rows after the
oldest of them move. Of each key a few numbers are kept (`keyed`): `gone`, how many rows were let go; `made`, up to
which row there are slices, and `edge`, where the last of these ends; `told` and `final`, up to which row windows were
due, and settled, when they were last looked at; `moved`, the first row that came since; and `torn`, whether
definitions disagreed about one of them.
"""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Columns, Ints, Slots, index, inlined, kernel, lift, load, store
from muntin.streams.blocks import allotted, given_back, room_of

KEYED = ("gone", "made", "edge", "told", "final", "moved", "torn")
"""What is kept of each key, in the order in which kernels take it."""
NOWHERE = 2**62
"""The number of a row that never comes."""


@inlined
def copy_row(times: Ints, states: Slots, to: int, at: int) -> None:
    """Copy a row from one slot to another."""
    times[index(to)] = times[index(at)]
    store(states, to, load(states, at))


@kernel
def room_for(rows: Any, blocks: Any, marks: Ints, free: Ints, key: int, more: int) -> bool:
    """Make room for more rows at the end of a key's block; say whether there was memory for them."""
    times, states = rows
    base, length, head, size, _ = blocks
    count = size[key]
    room = room_of(length[key]) if base[key] >= 0 else 0
    if head[key] + count + more <= room:
        return True
    old = base[key] + head[key]
    if count + more <= room and 2 * head[key] >= room:
        for i in range(count):
            copy_row(times, states, base[key] + i, old + i)
        head[key] = 0
        return True
    longer = length[key] + marks[6] if base[key] >= 0 else 0
    while room_of(longer) < count + more:
        longer += marks[6]
    begin = allotted(rows, marks, free, longer)
    if begin < 0:
        return False
    for i in range(count):
        copy_row(times, states, begin + i, old + i)
    given_back(rows, blocks, marks, free, key)
    base[key] = begin
    length[key] = longer
    size[key] = count
    return True


@kernel
def merge_key(
    batch: Any, columns: Columns, rows: Any, blocks: Any, key: int, gone: int, first: int, last: int, spots: Ints
) -> None:
    """Put the new rows [first, last) of a key between those there are; write the number that each one gets."""
    _, arriving, order = batch
    times, states = rows
    base, _, head, size, _ = blocks
    begin = base[key] + head[key]
    old = begin + size[key] - 1
    to = old + last - first
    shift = gone - begin
    new = last - 1
    while new >= first:
        row = order[index(new)]
        if old >= begin and times[index(old)] > arriving[index(row)]:
            copy_row(times, states, to, old)
            old -= 1
        else:
            times[index(to)] = arriving[index(row)]
            store(states, to, lift(columns, arriving, row))
            spots[index(new)] = to + shift
            new -= 1
        to -= 1
    size[key] += last - first


@kernel
def rows_until(rows: Any, blocks: Any, gone: Ints, key: int, time: int) -> int:
    """Return how many rows of a key there have been up to this time, itself included."""
    base, _, head, size, _ = blocks
    begin = base[key] + head[key]
    end = begin + size[key]
    least = begin
    times = rows[0]
    while least < end:
        middle = (least + end) >> 1
        if times[index(middle)] > time:
            end = middle
        else:
            least = middle + 1
    return int(gone[key] + least - begin)


ROWS = (copy_row, room_for, merge_key, rows_until)
