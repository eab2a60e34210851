"""Keys as numbers that stay from push to push, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.slicing.keys import key_numbers
from muntin.types import Array


class KeyTable:
    """Small numbers for keys, the same from push to push until they are released. O(1) a row, and a dict of keys.

    >>> table = KeyTable([pa.string()])
    >>> table.numbers([pa.array(["b", "a"])], 2), table.numbers([pa.array(["c", "a"])], 2)
    (array([0, 1]), array([2, 1]))
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._keys: dict[int, tuple[Any, ...]] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        """Return how many keys are known."""
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        """About how many bytes the table takes."""
        return 200 * len(self._numbers)

    def numbers(self, columns: Sequence[Any], rows: int) -> Array:
        """Return the number of each row's key; keys that are new get one."""
        codes, count = key_numbers(list(columns), rows)
        _, first = np.unique(codes, return_index=True)
        lists = [column.take(pa.array(first)).to_pylist() for column in columns]
        keys = list(zip(*lists, strict=True)) if lists else [()] * count
        return np.array([self._number(key) for key in keys], np.int64)[codes]

    def _number(self, key: tuple[Any, ...]) -> int:
        key = tuple("NaN" if value != value else value for value in key)
        if key not in self._numbers:
            number = self._free.pop() if self._free else len(self._numbers)
            self._numbers[key], self._keys[number] = number, key
        return self._numbers[key]

    def take(self, numbers: Array) -> list[pa.Array]:
        """Return the keys of these numbers, a column of each type."""
        keys = [self._keys[number] for number in numbers.tolist()]
        return [
            pa.array([float("nan") if pa.types.is_floating(kind) and key[i] == "NaN" else key[i] for key in keys], kind)
            for i, kind in enumerate(self.types)
        ]

    def release(self, numbers: Array) -> None:
        """Forget keys; their numbers may be given to others."""
        for number in sorted(numbers.tolist(), reverse=True):
            del self._numbers[self._keys.pop(number)]
            self._free.append(number)

    def mark(self) -> Any:
        """Return what `forget_since` needs to undo what comes now."""
        return dict(self._numbers), dict(self._keys), list(self._free)

    def forget_since(self, mark: Any) -> None:
        """Forget the keys that were new since the mark."""
        self._numbers, self._keys, self._free = mark

    def known(self) -> Array:
        """Return the numbers in use, ascending."""
        return np.array(sorted(self._keys), np.int64)

    def save(self) -> dict[str, Array]:
        """Return the whole table as arrays by name."""
        numbers = self.known()
        names = [str(i) for i in range(len(self.types))]
        sink = pa.BufferOutputStream()
        batch = pa.RecordBatch.from_arrays(self.take(numbers), names=names)
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        keys = np.frombuffer(sink.getvalue(), np.uint8).copy()
        return {"numbers": numbers, "keys": keys, "free": np.array(self._free, np.int64)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace all keys by those that `save` returned; they keep their numbers."""
        table = pa.ipc.open_stream(pa.py_buffer(state["keys"].tobytes())).read_all()
        lists = [column.to_pylist() for column in table.columns]
        keys = list(zip(*lists, strict=True)) if lists else [()] * len(state["numbers"])
        keys = [tuple("NaN" if value != value else value for value in key) for key in keys]
        self._numbers = dict(zip(keys, state["numbers"].tolist(), strict=True))
        self._keys = {number: key for key, number in self._numbers.items()}
        self._free = state["free"].tolist()
