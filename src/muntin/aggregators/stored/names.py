"""Names: identify the chunks of a window, and their keys in the store."""

from __future__ import annotations

from typing import NamedTuple

from muntin.stores.base import numbered


class Name(NamedTuple):
    """The identity of a chunk."""

    level: int
    generation: int
    number: int

    def __str__(self) -> str:
        """Return it in words, for errors."""
        return f"chunk {self.number} of level {self.level}, of generation {self.generation},"


class Names:
    """The names of all chunks of a window: their numbers per level, and the generations that wrote them."""

    def __init__(self, window_id: str) -> None:
        self.prefix = b"muntin:{" + window_id.encode() + b"}:"
        self.generation = 0
        self.runs: list[tuple[int, list[int]]] = []
        """Each generation, in order, with the first chunk that it wrote per level; 0 for omitted levels."""

    def begin_generation(self, firsts: list[int]) -> None:
        """Start a new generation with these chunks, one per level."""
        self.generation += 1
        levels = max((level + 1 for level, first in enumerate(firsts) if first), default=0)
        self.runs.append((self.generation, firsts[:levels]))

    def forget(self, kept: list[int]) -> None:
        """Forget generations whose chunks all come before these, one per level."""
        while len(self.runs) > 1 and all(a <= b for a, b in zip(self.runs[1][1], kept, strict=False)):
            del self.runs[0]

    def of(self, level: int, number: int) -> Name:
        """Return the name of a chunk: its generation is that of the process that filled it."""
        for generation, starts in reversed(self.runs):
            if level >= len(starts) or starts[level] <= number:
                return Name(level, generation, number)
        return Name(level, self.runs[0][0], number)

    def series(self, generation: int, level: int) -> bytes:
        """Return the common prefix of the keys of one level's chunks."""
        return self.prefix + b"%08x:%02x:" % (generation, level)

    def key(self, name: Name) -> bytes:
        """Return the key of a chunk."""
        return numbered(self.series(name.generation, name.level), name.number)
