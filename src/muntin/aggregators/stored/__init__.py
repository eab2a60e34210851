"""A MonoidTree whose body is in a key-value store. In memory stay the two ends of every level, and O(log n) more.

    a level     | head: up to 8 chunks  |  the store: chunks of 64 KiB     | tail: up to 4 chunks |
                  rows leave here                                            rows enter here

Inserts only touch tails, and evictions only heads, so that kernels run for thousands of rows without Python; then full
chunks of the tails are given to the courier, which writes them in the background, and heads that are half empty are
filled from what was read ahead. A search that comes to a node in between stops, its chunk is read, and it starts again:
at most a few chunks for each level.

What is durable is what the last *manifest* says: the ends of all levels, the results and the stack, which chunks the
body consists of, and what may be deleted. Two of them take turns, each with a checksum, and one is written only when
all chunks that it speaks of are. Chunks that it speaks of are deleted only when the next one is written. Whoever opens
a window writes a manifest with a new *generation* before anything else; chunks carry the generation in their keys, so
that those of a process that died, or lost its lease, are never taken for others.
"""

from muntin.aggregators.stored.tree import StoredMonoidTree

__all__ = ["StoredMonoidTree"]
