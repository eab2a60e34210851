"""Keys as numbers: maps each combination of values of one or several columns to a small integer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import ColumnTypeError, InvalidArgumentError, InvariantError, SnapshotError
from muntin.keys import encoding
from muntin.keys.kernels import CAPACITY, END, LIVE, WAITING
from muntin.memory import room
from muntin.restoring import RestorePoint
from muntin.threads import in_threads, shares
from muntin.types import Array

_LEAST_KEYS = 64
_LEAST_BYTES = 1024
_FEW = 16
_MOST_RECENT = 1 << 14
"""How many keys are cached as Python values."""
_MOST_TAKEN = 64
"""How many small sets of keys are cached as Arrow arrays."""


class KeyTable:
    """Small numbers for keys, stable across pushes until released.

    A key is a value of each column; null is a value like any other, NaN equals NaN, and -0.0 equals 0.0. Released
    numbers are reused, the smallest of those released together first. About 40 bytes per key, plus its own bytes if it
    is more than one number or time.

    >>> table = KeyTable([pa.string()])
    >>> table.numbers([pa.array(["b", "a", None])], 3), table.numbers([pa.array(["c", "a"])], 2)
    (array([0, 1, 2]), array([3, 1]))
    >>> table.take(np.array([2, 3]))[0].to_pylist()
    [None, 'c']
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        for kind in types:
            encoding.require_key_type(kind)
        self.types = tuple(types)
        self._is_word = len(types) == 1 and encoding.is_word(types[0])
        self._is_text = len(types) == 1 and encoding.is_text(types[0])
        self.few = _FEW if types and all(map(encoding.python_types, types)) else 0
        """Up to this many keys are looked up in a dict first, faster than calling a kernel."""
        self._recent: dict[tuple[Any, ...], int] = {}
        self._taken: dict[bytes, list[pa.Array]] = {}
        self._epoch = 0
        self._dead = 0  # bytes of the arena of released keys
        self._tallies = np.zeros(4, np.int64)
        self._used = np.zeros(0, np.uint8)
        self._fingerprints = np.zeros(0, np.uint64)
        self._free = np.zeros(0, np.int64)
        self._places = np.zeros((0, 2), np.int64)
        self._arena = np.zeros(0 if self._is_word else _LEAST_BYTES, np.uint8)
        self._same = np.zeros(0, np.int64)  # without key columns all rows have one key
        self._make_room(_LEAST_KEYS)

    def __len__(self) -> int:
        """Return the number of keys. O(1)."""
        return int(self._tallies[LIVE])

    @property
    def capacity(self) -> int:
        """One more than the greatest number in use. O(1)."""
        return int(self._tallies[CAPACITY])

    def in_use(self) -> Array:
        """Return the numbers of all keys, ascending. O(n)."""
        return np.flatnonzero(self._used[: self.capacity])

    @property
    def nbytes(self) -> int:
        """The bytes of the table. O(1)."""
        arrays = (self._slots, self._used, self._fingerprints, self._free, self._places, self._arena)
        return sum(array.nbytes for array in arrays)

    def numbers(self, columns: Sequence[pa.Array | pa.ChunkedArray], rows: int) -> Array:
        """Return the number of each row's key, assigning one to new keys. Expected O(bytes of the rows).

        >>> KeyTable([pa.int64(), pa.bool_()]).numbers([pa.array([7, 7, 7]), pa.array([True, None, True])], 3)
        array([0, 1, 0])
        """
        self._require(columns, rows)
        if not self.types and rows:
            if rows > len(self._same) or not len(self):
                self._same = np.full(rows, self._looked_up((), 1)[0])
            return self._same[:rows]
        cells = list(zip(*(column.to_pylist() for column in columns), strict=True)) if rows <= self.few else []
        numbers = self.remembered(cells) if cells else None
        if numbers is None:
            numbers = self._looked_up(columns, rows)
            if cells:
                self._remember(cells, numbers)
        return numbers

    def find(self, columns: Sequence[pa.Array | pa.ChunkedArray], rows: int) -> Array:
        """Return the number of each row's key, -1 if unknown: assigns none. Expected O(bytes).

        >>> table = KeyTable([pa.string()])
        >>> table.numbers([pa.array(["b", "a"])], 2), table.find([pa.array(["a", "c"])], 2), len(table)
        (array([0, 1]), array([ 1, -1]), 2)
        """
        self._require(columns, rows)
        if not self.types:
            return np.full(rows, self.in_use()[0] if len(self) else -1, np.int64)
        numbers = room(rows, np.dtype(np.int64))
        keys = [encoding.frozen(each) for each in self._encoded(columns, rows)]
        kernels = encoding.finding_kernels()
        with np.errstate(over="ignore"):  # hashes overflow, and uncompiled numbers would warn of it
            if self._is_word:
                kernels.find_words(*keys, self._slots, self._shift, numbers)
            else:
                kernels.find_bytes(*keys, self._slots, self._shift, self._places, self._arena, numbers)
        return numbers

    def remembered(self, cells: Sequence[tuple[Any, ...]]) -> Array | None:
        """Return the numbers of keys, as tuples of Python values, if all are cached. Expected O(1) per key.

        >>> table = KeyTable([pa.string()])
        >>> table.numbers([pa.array(["a", "b"])], 2), table.remembered([("b",)]), table.remembered([("c",)])
        (array([0, 1]), array([1]), None)
        """
        numbers = [self._recent.get(each) for each in cells]
        return None if None in numbers else np.array(numbers, np.int64)

    def _remember(self, cells: Sequence[tuple[Any, ...]], numbers: Array) -> None:
        if len(self._recent) > _MOST_RECENT:
            self._recent.clear()
        self._recent.update(zip(cells, numbers.tolist(), strict=True))

    def take(self, numbers: Array) -> list[pa.Array]:
        """Return the keys of these numbers, one column per type. O(bytes of the keys).

        A dictionary that exceeds its index type gets int64 indices.

        >>> table = KeyTable([pa.float32()])
        >>> table.take(table.numbers([pa.array([-0.0, 1.5], pa.float32())], 2))[0].to_pylist()
        [0.0, 1.5]
        """
        numbers = np.asarray(numbers, np.int64)
        if len(numbers) > _FEW:
            return self._take(numbers)
        wanted = numbers.tobytes()
        if wanted not in self._taken:  # the same few keys tend to be taken repeatedly
            if len(self._taken) >= _MOST_TAKEN:
                self._taken.clear()
            self._taken[wanted] = self._take(numbers)
        return self._taken[wanted]

    def _take(self, numbers: Array) -> list[pa.Array]:
        numbers = self._in_use(numbers)
        valid = self._used[numbers] == 1
        if self._is_word:
            return [encoding.words_to_arrow(self._fingerprints[numbers], valid, self.types[0])]
        starts, lengths = self._places[numbers].T.copy()
        if self._is_text:
            return [encoding.texts_to_arrow(self._arena, starts, lengths, valid, self.types[0])]
        return encoding.rows_to_arrow(self._arena, starts, self.types)

    def release(self, numbers: Array) -> None:
        """Forget keys; their numbers may be reused. Restore points are void afterwards. Amortised O(1) per key.

        >>> table = KeyTable([pa.int64()])
        >>> table.release(table.numbers([pa.array([7, 8])], 2)[:1])
        >>> table.numbers([pa.array([9, 8])], 2)
        array([0, 1])
        """
        released = np.unique(self._in_use(numbers))[::-1].copy()  # so that the smallest is reused first
        if not len(released):
            return
        self._forget(released)
        encoding.kernels().give_back(released, self._tallies, self._used, self._free)
        self._epoch += 1
        self._dead += 0 if self._is_word else int(self._places[released, 1].sum())
        if 2 * self._dead > len(self._arena):
            self._compact()
        if 8 * self.capacity < len(self._used) > _LEAST_KEYS:
            self._make_room(max(_LEAST_KEYS, 2 * self.capacity))

    def restore_point(self) -> RestorePoint:
        """Return a callback that forgets keys added from now on. O(1), then expected O(1) per key.

        >>> table = KeyTable([pa.int64()])
        >>> restore = table.restore_point()
        >>> table.numbers([pa.array([7, 8])], 2), len(table)
        (array([0, 1]), 2)
        >>> restore()
        >>> len(table), table.capacity
        (0, 0)
        """
        tallies, epoch = self._tallies.copy(), self._epoch

        def restore() -> None:
            if epoch != self._epoch:
                raise InvalidArgumentError("keys were released since this restore point, which is void")
            # Numbers taken from the free list are still there, above the remaining ones.
            again = self._free[self._tallies[WAITING] : tallies[WAITING]]
            again = again[again < tallies[CAPACITY]]
            self._forget(np.concatenate((again, np.arange(tallies[CAPACITY], self.capacity))))
            self._tallies[:] = tallies

        return restore

    # ------------------------------------------------------------ state as arrays

    def save(self) -> dict[str, Array]:
        """Return the whole table as arrays by name: numbers, keys (an Arrow stream), free numbers. O(bytes)."""
        numbers = np.flatnonzero(self._used).astype(np.int64)
        names = [str(i) for i in range(len(self.types))]
        batch = pa.RecordBatch.from_arrays(self.take(numbers), names=names)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        keys = np.frombuffer(sink.getvalue(), np.uint8).copy()
        return {"numbers": numbers, "keys": keys, "free": self._free[: self._tallies[WAITING]].copy()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace all keys by those that `save` returned; they keep their numbers. O(bytes).

        >>> table, other = KeyTable([pa.int64()]), KeyTable([pa.int64()])
        >>> other.release(other.numbers([pa.array([7, 8])], 2)[:1])
        >>> table.load(other.save())
        >>> table.numbers([pa.array([8, 9])], 2)
        array([1, 0])
        """
        numbers, free = state["numbers"].astype(np.int64), state["free"].astype(np.int64)
        taken = np.concatenate((numbers, free))
        if (taken < 0).any() or np.bincount(taken).max(initial=0) > 1:
            raise SnapshotError("the snapshot is damaged: a key's number is there twice, or negative")
        fresh = KeyTable(self.types)
        try:
            columns = pa.ipc.open_stream(pa.py_buffer(state["keys"].tobytes())).read_all().columns
            fresh._require(columns, len(numbers))
        except (pa.ArrowInvalid, ColumnTypeError, InvalidArgumentError) as error:
            raise SnapshotError(f"the snapshot is damaged, or of other keys: {error}") from error
        fresh._make_room(int(taken.max(initial=0)) + 1)
        # A table with exactly these numbers free assigns them in this order.
        fresh._free[: len(numbers)] = numbers[::-1]
        fresh._tallies[[WAITING, CAPACITY]] = len(numbers), numbers.max(initial=-1) + 1
        if not np.array_equal(fresh._lookup(columns, len(numbers)), numbers):
            raise SnapshotError("the snapshot is damaged: a key is there twice")
        fresh._free[: len(free)] = free
        fresh._tallies[WAITING] = len(free)
        self.__dict__.update({**vars(fresh), "_epoch": self._epoch + 1})

    def check(self) -> None:
        """Raise `InvariantError` unless every key is found under its number, and all counts agree. O(bytes)."""
        used = np.flatnonzero(self._used).astype(np.int64)
        held = self._slots[:, 1]
        free = self._free[: self._tallies[WAITING]]
        facts = {
            "the slots hold other numbers than are in use": np.array_equal(np.sort(held[held > 0]) - 1, used),
            "the number of keys is wrong": len(used) == len(self),
            "the capacity is not one more than the greatest number": self.capacity == used.max(initial=-1) + 1,
            "a free number is in use, or twice there": not self._used[free].any() and len(np.unique(free)) == len(free),
            "a number below the capacity is neither free nor in use": (
                len(used) + np.count_nonzero(free < self.capacity) == self.capacity
            ),
        }
        restore = self.restore_point()
        facts["a key is not found under its number"] = np.array_equal(self._lookup(self.take(used), len(used)), used)
        restore()
        for message, holds in facts.items():
            if not holds:
                raise InvariantError(f"the table of keys is broken: {message}")

    # ------------------------------------------------------------ internal

    def _require(self, columns: Sequence[Any], rows: int) -> None:
        """Reject columns of other types or lengths."""
        if len(columns) != len(self.types):
            raise InvalidArgumentError(f"the key has {len(self.types)} columns, not {len(columns)}")
        for i, (column, kind) in enumerate(zip(columns, self.types, strict=True)):
            if column.type != kind and encoding.without_indices(column.type) != encoding.without_indices(kind):
                raise ColumnTypeError(f"column {i} of the key has the type {column.type}; it must stay {kind}")
            if len(column) != rows:
                raise InvalidArgumentError(f"column {i} of the key has {len(column)} rows, not {rows}")

    def _in_use(self, numbers: Array) -> Array:
        numbers = np.asarray(numbers, np.int64)
        known = (numbers >= 0) & (numbers < self.capacity)
        if known.all():
            known = self._used[numbers] != 0
        if not known.all():
            raise InvalidArgumentError(f"{numbers[~known][0]} is not the number of a key; it may have been released")
        return numbers

    def _looked_up(self, columns: Sequence[Any], rows: int) -> Array:
        """Number the rows, or change nothing, if memory runs out or an interrupt comes in the middle of a key."""
        before = self._tallies.copy()
        try:
            return self._lookup(columns, rows)
        except BaseException:
            self._rebuild(before)
            raise

    def _rebuild(self, tallies: Array) -> None:
        """Forget the keys added since these tallies, wherever numbering stopped. O(keys)."""
        self._recent.clear()
        self._taken.clear()
        # Numbers taken from the free list are still there, above the remaining ones.
        self._used[self._free[self._tallies[WAITING] : tallies[WAITING]]] = 0
        self._used[tallies[CAPACITY] :] = 0
        self._tallies[:] = tallies
        self._make_room(len(self._used))

    def _lookup(self, columns: Sequence[Any], rows: int) -> Array:
        """Number the rows, stopping wherever room runs out: kernels cannot make any."""
        numbers = room(rows, np.dtype(np.int64))
        keys = [encoding.frozen(each) for each in self._encoded(columns, rows)]
        kernel = encoding.kernels().number_words if self._is_word else encoding.kernels().number_bytes
        done = 0
        while done < rows:
            places = () if self._is_word else (self._places, self._arena)
            state = (self._slots, self._shift, self._tallies, self._used, self._fingerprints, self._free, *places)
            with np.errstate(over="ignore"):  # hashes overflow, and uncompiled numbers would warn of it
                done = kernel(*keys, done, *state, numbers)
            if done < rows:
                self._grow(0 if self._is_word else int(keys[1][done + 1] - keys[1][done]))
        return numbers

    def _encoded(self, columns: Sequence[Any], rows: int) -> tuple[Array, ...]:
        """Return keys as a kernel reads them: words, or bytes and offsets; and which are not null."""
        arrays = [encoding.one_array(column) for column in columns]
        if self._is_word:
            return encoding.words_of(arrays[0]), encoding.mask_of(arrays[0])
        if self._is_text:
            return *encoding.texts_of(arrays[0]), encoding.mask_of(arrays[0])
        return *encoding.rows_of(arrays, rows), np.zeros(0, np.bool_)

    def _grow(self, length: int) -> None:
        """Make room for a key of `length` bytes, by doubling the arena or the table."""
        end = int(self._tallies[END]) + length
        if end > len(self._arena):
            self._arena = _longer(self._arena, max(end, 2 * len(self._arena)))
        else:
            self._make_room(2 * len(self._used))

    def _make_room(self, keys: int) -> None:
        """Make room for at least `keys` numbers, and twice as many slots. O(keys)."""
        bits = max(1, keys - 1).bit_length()
        void = self._free[: self._tallies[WAITING]] >= 1 << bits
        if void.any():
            self._tallies[WAITING] -= np.count_nonzero(void)
            self._free = self._free[: len(void)][~void]
        self._used = _longer(self._used, 1 << bits)
        self._fingerprints = _longer(self._fingerprints, 1 << bits)
        self._free = _longer(self._free, 1 << bits)
        self._places = _longer(self._places, 0 if self._is_word else 1 << bits)
        self._slots = np.zeros(((2 << bits) + 1, 2), np.uint64)
        self._shift = np.uint64(63 - bits)
        with np.errstate(over="ignore"):
            state = (self._tallies, self._used, self._fingerprints)
            encoding.kernels().fill_slots(self._slots, self._shift, *state)

    def _forget(self, numbers: Array) -> None:
        self._recent.clear()
        self._taken.clear()
        with np.errstate(over="ignore"):
            state = (self._tallies, self._used, self._fingerprints)
            encoding.kernels().forget(numbers, self._slots, self._shift, *state)

    def _compact(self) -> None:
        """Compact the bytes of all keys."""
        used = np.flatnonzero(self._used)
        starts, lengths = self._places[used].T.copy()
        ends = np.cumsum(lengths)
        end = int(lengths.sum())
        arena = np.zeros(max(_LEAST_BYTES, 2 * end), np.uint8)
        encoding.copy_runs(self._arena, starts, lengths, arena, ends - lengths)
        self._places[used, 0] = ends - lengths
        self._arena, self._tallies[END], self._dead = arena, end, 0


def _longer(array: Array, length: int) -> Array:
    """Return the array extended to this length."""
    longer = np.zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array[:length]
    return longer


def key_numbers(columns: list[Any], rows: int, threads: int = 1) -> tuple[Array, int]:
    """Return the number of each row's key, in order of appearance, and the number of keys. O(bytes).

    Each thread numbers a part of the rows; then the keys of all parts are numbered, part by part.

    >>> key_numbers([pa.array(["b", "a", "b"]), pa.array([1, 1, None])], 3)
    (array([0, 1, 2]), 3)
    """
    types = [column.type for column in columns]
    if not types:
        return np.zeros(rows, np.int64), min(rows, 1)  # untouched pages are never allocated
    parts = shares(0, rows, threads)
    whole = KeyTable(types)
    if len(parts) == 1:
        return whole.numbers(columns, rows), len(whole)
    numbers = room(rows, np.dtype(np.int64))

    def number(start: int, stop: int) -> KeyTable:
        table = KeyTable(types)
        numbers[start:stop] = table.numbers([column.slice(start, stop - start) for column in columns], stop - start)
        return table

    def renumber(start: int, stop: int, known: Array) -> None:
        np.take(known, numbers[start:stop], out=numbers[start:stop], mode="clip")

    tables = in_threads([partial(number, *part) for part in parts], threads)
    known = [whole.numbers(table.take(table.in_use()), len(table)) for table in tables]
    in_threads([partial(renumber, *part, each) for part, each in zip(parts, known, strict=True)], threads)
    return numbers, len(whole)
