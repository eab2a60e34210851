"""A MonoidTree whose body is in a key-value store. Only the two ends of every level, and O(log n) more, stay in memory.

    a level     | head: up to 8 chunks  |  the store: chunks of 64 KiB     | tail: up to 4 chunks |
                  rows leave here                                            rows enter here

Inserts only touch tails, and evictions only heads, so kernels run for thousands of rows without Python; then full
chunks of the tails go to the courier, which writes them in the background, and half-empty heads are filled from what
was read ahead. A search that reaches a node in between stops, its chunk is read, and it restarts: at most a few chunks
per level.

The last *manifest* defines what is durable: the ends of all levels, the results and the stack, the chunks of the body,
and what may be deleted. Two of them alternate, each with a checksum, and one is written only after all chunks it refers
to. Chunks it refers to are deleted only after the next one is written. Whoever opens a window first writes a manifest
with a new *generation*; chunks carry the generation in their keys, so that those of a process that died, or lost its
lease, are never mistaken for others.
"""

from muntin.aggregators.stored.log_tree import StoredLogMonoidTree
from muntin.aggregators.stored.tree import StoredMonoidTree

__all__ = ["StoredLogMonoidTree", "StoredMonoidTree"]
