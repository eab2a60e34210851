"""Buckets: groups of keys that share one stateful call, and their distribution over Spark's partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.keys.encoding import hashes_of, is_text, is_word, one_array
from muntin.keys.table import key_numbers
from muntin.types import Array

CLERK = -1
"""The bucket without rows: it records the query of the checkpoint."""
_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Keyed:
    """The keys of some rows, and the bucket of each."""

    columns: list[pa.Array]
    """The distinct keys, some of them twice if a float is zero or NaN."""
    numbers: Array
    """The number of each row's key."""
    buckets: Array
    """The bucket of each key."""

    @classmethod
    def of(cls, columns: list[Any], rows: int, count: int) -> Keyed:
        """Return the keys of rows, hashed into `buckets`. O(rows): hashes only distinct keys.

        >>> keyed = Keyed.of([pa.array(["b", "a", "b"])], 3, 8)
        >>> keyed.columns[0].to_pylist(), keyed.numbers, keyed.buckets
        (['b', 'a'], array([0, 1, 0]), array([6, 5]))
        """
        if not columns:
            return cls([], np.zeros(rows, np.int64), np.zeros(1, np.int64))
        if len(columns) == 1 and (is_word(columns[0].type) or is_text(columns[0].type)):
            different, numbers = _encoded(columns[0])
        else:
            numbers, keys = key_numbers(columns, rows)
            first = np.zeros(keys, np.int64)
            first[numbers[::-1]] = np.arange(rows - 1, -1, -1)
            different = [pc.take(column, pa.array(first)) for column in columns]
        return cls(different, numbers, bucket_of_each(different, len(different[0]), count))


def bucket_of_each(columns: list[Any], rows: int, count: int) -> Array:
    """Return the bucket of each row's key. O(rows): faster than by its number if most keys are different.

    >>> bucket_of_each([pa.array(["b", "a", "b"])], 3, 8)
    array([6, 5, 6])
    """
    if not columns:
        return np.zeros(rows, np.int64)
    return (hashes_of(columns, rows) % np.uint64(count)).astype(np.int64)


def _encoded(column: Any) -> tuple[list[pa.Array], Array]:
    """Return the distinct values of a column, and the number of each row's."""
    encoded = pc.dictionary_encode(one_array(column), null_encoding="encode")
    return [encoded.dictionary], encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def labels(count: int) -> list[int]:
    """Return labels of buckets that Spark spreads evenly over partitions, whose number must divide theirs.

    Spark hashes what it groups by: of eight buckets numbered from 0, six may fall into one of two partitions.

    >>> [spark_hash(label) % 4 for label in labels(4)]
    [0, 1, 2, 3]
    """
    found: dict[int, int] = {}
    label = 0
    while len(found) < count:
        found.setdefault(spark_hash(label) % count, label)
        label += 1
    return [found[place] for place in range(count)]


def spark_hash(value: int) -> int:
    """Return Spark's hash (Murmur 3, 32 bits, seed 42) of an integer of 4 bytes.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    mixed = value * 0xCC9E2D51 & _MASK
    mixed = (mixed << 15 | mixed >> 17) & _MASK
    state = 42 ^ mixed * 0x1B873593 & _MASK
    state = (state << 13 | state >> 19) & _MASK
    state = (state * 5 + 0xE6546B64) & _MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def default_count(cores: int, partitions: int) -> int:
    """Return the default number of buckets: four per core, and equally many in each partition.

    >>> default_count(2, 2), default_count(4, 6), default_count(2, 200)
    (8, 18, 8)
    """
    least = 4 * cores
    return -(-least // partitions) * partitions if partitions < least else least
