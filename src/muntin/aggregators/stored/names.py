"""Names: which chunk of a window is meant, and under which key the store has it."""

from __future__ import annotations

from typing import NamedTuple

from muntin.stores.base import numbered


class Name(NamedTuple):
    """Which chunk of a window it is."""

    level: int
    generation: int
    number: int

    def __str__(self) -> str:
        """Say it in words, for errors."""
        return f"chunk {self.number} of level {self.level}, of generation {self.generation},"


class Names:
    """The names of all chunks of a window: the numbers in a level, and the generations that wrote them."""

    def __init__(self, window_id: str) -> None:
        self.prefix = b"muntin:{" + window_id.encode() + b"}:"
        self.generation = 0
        self.runs: list[tuple[int, list[int]]] = []
        """Each generation, in order, and for each level the first chunk that it wrote; 0 for levels left out."""

    def begin_generation(self, firsts: list[int]) -> None:
        """From these chunks on, one for each level, those of a new generation are written."""
        self.generation += 1
        levels = max((level + 1 for level, first in enumerate(firsts) if first), default=0)
        self.runs.append((self.generation, firsts[:levels]))

    def forget(self, kept: list[int]) -> None:
        """Forget the generations all of whose chunks come before these, one for each level."""
        while len(self.runs) > 1 and all(a <= b for a, b in zip(self.runs[1][1], kept, strict=False)):
            del self.runs[0]

    def of(self, level: int, number: int) -> Name:
        """Return the name of a chunk: its generation is that of the process in which its tail became full."""
        for generation, starts in reversed(self.runs):
            if level >= len(starts) or starts[level] <= number:
                return Name(level, generation, number)
        return Name(level, self.runs[0][0], number)

    def series(self, generation: int, level: int) -> bytes:
        """Return what the keys of one level's chunks have in common."""
        return self.prefix + b"%08x:%02x:" % (generation, level)

    def key(self, name: Name) -> bytes:
        """Return the key of a chunk."""
        return numbered(self.series(name.generation, name.level), name.number)
