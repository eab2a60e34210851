"""The part of a level in memory: its tail, its head, and a few chunks read by searches; all in the same arrays.

The cells of a level are a ring of 4 chunks for the tail, one of 8 for the head, and 4 places for chunks in between.
Their bounds are in the marks, so that kernels see them too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregators.monoid_tree import DEPTH, MonoidTreeWindow
from muntin.aggregators.ring import END, FRONT
from muntin.types import Array

ENTER_LIMIT, LEAVE_LIMIT, TARGET, MISS_LEVEL, MISS_NODE, BITS, PENDING = range(6, 13)
"""Marks: how far rows may enter and leave without Python, the target of the front, the missing node, the size of a
chunk, and whether the policy must still be enforced."""
LEVELS = 48
TAILS, HEADS, HEAD_ENDS, PROBES = 16, 16 + LEVELS, 16 + 2 * LEVELS, 16 + 3 * LEVELS
"""Tables in the marks, an entry per level: the first node of the tail, the first and the end of the head, and the first
nodes of the four chunks read by searches."""
TAIL, HEAD, FOUND = 4, 8, 4
"""Chunks in a tail, in a head, and read by searches."""
ALL = TAIL + HEAD + FOUND
MARKS = PROBES + FOUND * LEVELS
FAR = np.iinfo("i8").max

Chunk = tuple[Array, Array]
"""The states of a chunk's nodes and, in level 0, their times."""


class Ends:
    """The arrays of a window, and the places of each level's nodes in them."""

    def __init__(self, bits: int) -> None:
        self.bits, self.size = bits, 1 << bits
        self._cells: Array
        self._times: Array
        self.marks: Array
        self._victims = [0] * LEVELS

    def allocate(self, binding: Binding) -> MonoidTreeWindow:
        """Return the arrays of an empty window, and use them from now on."""
        marks = np.zeros(MARKS, "i8")
        marks[DEPTH], marks[BITS], marks[ENTER_LIMIT], marks[MISS_LEVEL] = 2, self.bits, TAIL * self.size, -1
        marks[PROBES:] = -self.size
        per_level = ALL * self.size
        self._cells, self._times, self.marks = binding.slots(LEVELS * per_level), np.zeros(per_level, "i8"), marks
        return MonoidTreeWindow(self._cells, self._times, marks, binding.slots(2 + 64))

    def forget_all_but_tails(self) -> None:
        """Forget heads and chunks in between."""
        self.marks[PROBES:] = -self.size
        self.marks[HEADS:PROBES] = 0
        self.marks[LEAVE_LIMIT] = 0

    # ------------------------------------------------------------ places

    @property
    def front(self) -> int:
        """The position of the oldest row."""
        return int(self.marks[FRONT])

    def count(self, level: int) -> int:
        """Return the number of the node after the last one of a level."""
        return max(0, ((int(self.marks[END]) + 1) >> level) - 1)

    def tables(self) -> tuple[list[int], list[int], list[int]]:
        """Return for each level the first node of the tail, and the first and the end of the head."""
        marks = self.marks.tolist()
        return marks[TAILS:HEADS], marks[HEADS:HEAD_ENDS], marks[HEAD_ENDS:PROBES]

    def level(self, level: int) -> tuple[int, int, int]:
        """Return the first node of a level's tail, and the first and the end of its head."""
        return int(self.marks[TAILS + level]), int(self.marks[HEADS + level]), int(self.marks[HEAD_ENDS + level])

    def tail_chunks(self) -> list[int]:
        """Return the number of the first chunk of each level's tail."""
        return [tail >> self.bits for tail in self.marks[TAILS:HEADS].tolist()]

    def tail_cells(self, level: int) -> Any:
        """Return the cells of a tail's nodes, in order."""
        nodes = np.arange(int(self.marks[TAILS + level]), self.count(level))
        return (ALL * level << self.bits) + (nodes & (TAIL * self.size - 1))

    def cell(self, level: int, j: int) -> int | None:
        """Return the cell of a node, as the kernel `spot` does; None if it is not in memory."""
        base = ALL * level << self.bits
        tail, start, end = self.level(level)
        if j >= tail:
            return base + (j & (TAIL * self.size - 1))
        if start <= j < end:
            return base + TAIL * self.size + (j & (HEAD * self.size - 1))
        for k in range(FOUND):
            first = int(self.marks[PROBES + FOUND * level + k])
            if first <= j < first + self.size:
                return base + ((TAIL + HEAD + k) << self.bits) + j - first
        return None

    # ------------------------------------------------------------ chunks in, chunks out

    def tail_chunk(self, level: int, first: int) -> Chunk:
        """Return the chunk that begins with this node of the tail, until it is overwritten: not a copy."""
        begin = (ALL * level << self.bits) + (first & (TAIL * self.size - 1))
        at = slice(begin, begin + self.size)
        return self._cells[at], self._times[at] if level == 0 else self._times[:0]

    def append_to_head(self, level: int, number: int, chunk: Chunk) -> None:
        """Append a chunk to the head."""
        first = number << self.bits
        self._write(level, ((ALL * level + TAIL) << self.bits) + (first & (HEAD * self.size - 1)), chunk)
        self.marks[HEAD_ENDS + level] = first + self.size

    def begin_head(self, level: int, number: int, chunk: Chunk) -> None:
        """Replace a head by this chunk."""
        self.marks[HEADS + level] = number << self.bits
        self.append_to_head(level, number, chunk)

    def keep_found(self, level: int, number: int, chunk: Chunk) -> None:
        """Cache a chunk from the middle of a level in place of the oldest of four."""
        k = self._victims[level]
        self._write(level, (ALL * level + TAIL + HEAD + k) << self.bits, chunk)
        self.marks[PROBES + FOUND * level + k] = number << self.bits
        self._victims[level] = (k + 1) % FOUND

    def _write(self, level: int, begin: int, chunk: Chunk) -> None:
        at = slice(begin, begin + self.size)
        _copy(chunk[0], self._cells[at])
        if level == 0:
            self._times[at] = chunk[1]

    def set_limits(self) -> None:
        """Set how far kernels may go: to the end of the lowest tail, and to the first end of a head."""
        front, limit = self.front, FAR
        tails, _, ends = self.tables()
        for level, (tail, end) in enumerate(zip(tails, ends, strict=True)):
            if not tail:
                break
            if front >> level < tail:
                limit = min(limit, end << level if end < tail else FAR)
        self.marks[ENTER_LIMIT] = tails[0] + TAIL * self.size
        self.marks[LEAVE_LIMIT] = limit


def _copy(states: Array, target: Array) -> None:
    """Write states over others, as bytes, because NumPy copies records field by field."""
    if states.dtype.hasobject:
        target[:] = states
    else:
        target.view("u1")[:] = states.view("u1")
