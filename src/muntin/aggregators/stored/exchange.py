"""The exchange between memory and the store: empties tails into it, and fills heads from it."""

from __future__ import annotations

from itertools import takewhile

from muntin.aggregators.monoid_tree import TOP
from muntin.aggregators.ring import END
from muntin.aggregators.stored.courier import Courier
from muntin.aggregators.stored.disposal import Disposal
from muntin.aggregators.stored.ends import HEAD, HEAD_ENDS, HEADS, LEVELS, TAIL, TAILS, Chunk, Ends
from muntin.aggregators.stored.names import Names
from muntin.aggregators.stored.traffic import Traffic

MARGIN = 8
"""Nodes that stay in a tail for the next inserts."""


class Exchange:
    """Moves chunks, so that kernels can go on."""

    def __init__(self, ends: Ends, courier: Courier, names: Names) -> None:
        self._ends, self._courier, self._names = ends, courier, names
        self.traffic = Traffic(courier, names)
        self.disposal = Disposal(courier, names)

    def provide(self) -> None:
        """Hand off full chunks of the tails, and fill the heads."""
        ends, front = self._ends, self._ends.front
        counts = self._counts()
        self._courier.has_room(2 * TAIL + len(counts))
        tails, heads, head_ends = ends.tables()
        try:
            for level, count in enumerate(counts):
                if self._is_full(count, tails[level]):
                    self._hand_off(level, tails[level], count, front)
                elif self._is_provided(front >> level, tails[level], heads[level], head_ends[level]):
                    continue  # as nearly always above the lowest levels
                self._fill_head(level, front)
        finally:
            ends.set_limits()
            self.traffic.send()

    def load(self, level: int, j: int) -> None:
        """Read the chunk of a node in the middle of a level."""
        number = j >> self._ends.bits
        self._ends.keep_found(level, number, self._fetch(level, number))

    def reach(self, position: int) -> None:
        """Load the first nodes of all levels for a window that begins at `position`. All is read, or nothing."""
        marks, bits = self._ends.marks, self._ends.bits
        if position == marks[END]:
            return
        read = {}
        for level in range(int(marks[TOP]) + 1):
            j = position >> level
            tail, start, end = self._ends.level(level)
            if j < tail and not start <= j < end:
                read[level] = (j >> bits, self._fetch(level, j >> bits))
        for level, (number, chunk) in read.items():
            self._ends.begin_head(level, number, chunk)

    # ------------------------------------------------------------ tails

    def _counts(self) -> list[int]:
        """Return the number of nodes of each level with more than a chunk."""
        end = int(self._ends.marks[END])
        counts = (((end + 1) >> level) - 1 for level in range(LEVELS))
        return list(takewhile(self._is_full, counts))

    def _is_full(self, count: int, tail: int = 0) -> bool:
        return count - tail >= self._ends.size + MARGIN

    def _hand_off(self, level: int, tail: int, count: int, front: int) -> None:
        """Write the full chunks of a tail, and keep those that follow the head."""
        while self._is_full(count, tail):
            if tail + self._ends.size > front >> level:
                self._give_away(level, tail, front >> level)
            tail += self._ends.size
            self._ends.marks[TAILS + level] = tail

    def _give_away(self, level: int, first: int, oldest: int) -> None:
        ends = self._ends
        number, chunk = first >> ends.bits, ends.tail_chunk(level, first)
        self.traffic.write(self._names.of(level, number), chunk)
        _, start, end = ends.level(level)
        if start == end:
            start = end = self._chunk_begin(oldest)
            ends.marks[HEADS + level] = start
        if end == first and end - start < HEAD * ends.size:
            ends.append_to_head(level, number, chunk)

    # ------------------------------------------------------------ heads

    def _chunk_begin(self, j: int) -> int:
        """Return the first node of a node's chunk."""
        return j >> self._ends.bits << self._ends.bits

    def _is_provided(self, oldest: int, tail: int, start: int, end: int) -> bool:
        """Return whether a head begins where it should, and is more than half full."""
        long = end - start > HEAD // 2 * self._ends.size
        return start == self._chunk_begin(oldest) and (long or end == tail)

    def _fill_head(self, level: int, front: int) -> None:
        """Fill the head of a level with the chunks of the oldest nodes, and more if available."""
        ends = self._ends
        begin = self._chunk_begin(front >> level)
        tail, start, end = ends.level(level)
        if front >> level >= tail:
            ends.marks[HEADS + level] = ends.marks[HEAD_ENDS + level] = 0
        else:
            if start <= begin < end:
                ends.marks[HEADS + level] = begin
            else:
                ends.begin_head(level, begin >> ends.bits, self._fetch(level, begin >> ends.bits))
            self._lengthen_head(level, tail, begin, (front + 2) >> level)
        if self.disposal.is_due(level, begin >> ends.bits):
            self.disposal.drop(level, begin >> ends.bits)
            self.traffic.forget(level, begin >> ends.bits)

    def _lengthen_head(self, level: int, tail: int, begin: int, needed: int) -> None:
        """Append what the next evictions need, and what has arrived; read ahead when half of the head is free."""
        ends = self._ends
        end = ends.level(level)[2]
        while end < tail and end - begin < HEAD * ends.size:
            number = end >> ends.bits
            if end > needed and not self.traffic.has_come(self._names.of(level, number)):
                break
            ends.append_to_head(level, number, self._fetch(level, number))
            end += ends.size
        if end - begin <= HEAD // 2 * ends.size:
            missing = range(end >> ends.bits, min(tail, begin + HEAD * ends.size) >> ends.bits)
            self.traffic.read_ahead(self._names.of(level, number) for number in missing)

    def _fetch(self, level: int, number: int) -> Chunk:
        return self.traffic.fetch(self._names.of(level, number))
