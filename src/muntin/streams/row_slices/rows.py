"""The rows that may still move or are needed: contiguous per key, by time, ties by arrival.

    block of a key     base .......... base + head ........ head + size ........ base + room
    a slot             free            row `gone` ......... the newest one       free

A row is its time and its lifted state. New rows are merged from the back, so that only rows after the oldest new one
move.
"""

from __future__ import annotations

from typing import NamedTuple

from muntin.kernels.vocabulary import Ints, index, kernel
from muntin.streams.blocks import STEP, Blocks, allot, give_back, room_of
from muntin.streams.script import MOVE, OPEN, Script, add_step

NOWHERE = 2**62
"""The number of a row that never arrives."""


class Arriving(NamedTuple):
    """Arriving rows, and their order by key, time and arrival."""

    keys: Ints
    times: Ints
    order: Ints


class Keyed(NamedTuple):
    """The data of each key."""

    gone: Ints
    """The number of evicted rows."""
    made: Ints
    """The row up to which there are slices."""
    edge: Ints
    """The end of the last slice once it is full."""
    emitted: Ints
    """The row up to which windows were due when last examined."""
    final: Ints
    """The row up to which windows were final when last examined."""
    moved: Ints
    """The first new row since then."""
    torn: Ints
    """1 if definitions disagreed about one of the new rows."""


@kernel
def move_rows(times: Ints, script: Script, to: int, at: int, count: int) -> None:
    """Move rows, and their states, to other slots; the two ranges may overlap."""
    if count > 0:
        add_step(script, MOVE, to, at, count)
    for i in range(count):
        from_end = i if to < at else count - 1 - i
        times[index(to + from_end)] = times[index(at + from_end)]


@kernel
def room_for(times: Ints, blocks: Blocks, script: Script, key: int, more: int) -> bool:
    """Make room for `more` rows at the end of a key's block; return whether there was memory for them."""
    count = blocks.size[key]
    begin = blocks.base[key]
    head = blocks.head[key]
    room = room_of(blocks.length[key]) if begin >= 0 else 0
    if head + count + more <= room:
        return True
    if count + more <= room and 2 * head >= room:
        move_rows(times, script, begin, begin + head, count)
        blocks.head[key] = 0
        return True
    length = blocks.length[key] + blocks.marks[STEP] if begin >= 0 else 0
    while room_of(length) < count + more:
        length += blocks.marks[STEP]
    to = allot(times, blocks, length)
    if to < 0:
        return False
    move_rows(times, script, to, begin + head, count)
    give_back(times, blocks, key)
    blocks.base[key] = to
    blocks.length[key] = length
    blocks.size[key] = count
    return True


@kernel
def merge_key(
    batch: Arriving,
    times: Ints,
    blocks: Blocks,
    script: Script,
    key: int,
    gone: int,
    first: int,
    last: int,
    spots: Ints,
) -> None:
    """Merge the new rows [first, last) of a key into those held; write the number of each to `spots`.

    From the back, new rows and old ones alternate: each run is a step.
    """
    begin = blocks.base[key] + blocks.head[key]
    old = begin + blocks.size[key]
    new = last
    while new > first:
        stop = old
        time = batch.times[index(batch.order[index(new - 1)])]
        while old > begin and times[index(old - 1)] > time:
            old -= 1
        to = old + new - first
        move_rows(times, script, to, old, stop - old)
        stop = new
        while new > first and (old == begin or times[index(old - 1)] <= time):
            new -= 1
            to -= 1
            times[index(to)] = time
            spots[index(new)] = to + gone - begin
            if new > first:
                time = batch.times[index(batch.order[index(new - 1)])]
        add_step(script, OPEN, to, new, stop)
    blocks.size[key] += last - first


@kernel
def rows_until(times: Ints, blocks: Blocks, gone: Ints, key: int, time: int) -> int:
    """Return the number of rows of a key up to and including this time."""
    begin = blocks.base[key] + blocks.head[key]
    end = begin + blocks.size[key]
    least = begin
    while least < end:
        middle = (least + end) >> 1
        if times[index(middle)] > time:
            end = middle
        else:
            least = middle + 1
    return int(gone[key] + least - begin)


ROWS = (move_rows, room_for, merge_key, rows_until)
