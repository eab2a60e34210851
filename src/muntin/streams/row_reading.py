"""One row as strategies take it: a cell per column, read without a table if its type is a plain one.

Other cells go through Arrow, as in a table of one row, with the same meaning and the same errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.columns import Column, pick, read_column, read_only
from muntin.errors import InvalidArgumentError
from muntin.keys.encoding import python_types
from muntin.keys.table import KeyTable
from muntin.query.changes import deletions
from muntin.query.plan import Types
from muntin.query.query import Query
from muntin.streams.reading import cast_safely
from muntin.tabular import as_table
from muntin.types import Array, ColumnType


class Row:
    """A row pushed by itself: the value of each column by name."""

    __slots__ = ("cells",)
    num_rows = 1

    def __init__(self, cells: Mapping[str, Any]) -> None:
        self.cells = cells

    @property
    def schema(self) -> pa.Schema:
        """The types of a table of this row."""
        return self.table().schema

    def table(self) -> pa.Table:
        """Return a table of this row."""
        return as_table({name: [cell] for name, cell in self.cells.items()})


def row_of(given: tuple[Any, ...], names: tuple[str, ...]) -> Row:
    """Return a mapping, or a value for each of these columns, as a row."""
    if len(given) == 1 and isinstance(given[0], Mapping):
        return Row(given[0])
    if len(given) != len(names):
        raise InvalidArgumentError(
            f"a row of this stream has {len(names)} values: {', '.join(names)}, in this order; got {len(given)}. "
            "Or give a mapping of columns to values"
        )
    return Row(dict(zip(names, given, strict=True)))


class RowReader:
    """Reads the single rows of a stream in the column types of the first push."""

    def __init__(self, types: Types, query: Query) -> None:
        time, self._changes = query.time, query.changes
        self.names = query.inputs
        self._columns = [(name, _cell_reader(name, kind, kind.logical)) for name, kind in types.columns.items()]
        self._keys = [(name, kind, python_types(kind)) for name, kind in types.keys.items()]
        self._time = time
        if time is not None:
            logical = None if types.time.family == "integer" else types.time.logical  # integers of any width are times
            self._read_time = _cell_reader(time, types.time, logical)

    def columns(self, row: Row) -> dict[str, Column]:
        """Return the columns that aggregates and windows read; reject cells that do not fit their types."""
        cells = row.cells
        return {name: read(_cell(cells, name)) for name, read in self._columns}

    def times(self, row: Row) -> Column:
        """Return the column of the times, in whatever type it has."""
        assert self._time is not None
        return self._read_time(_cell(row.cells, self._time))

    def takes(self, row: Row) -> Array | None:
        """Return that the row takes another one back, None if it does not; reject an unknown word."""
        assert self._changes is not None
        word = _cell(row.cells, self._changes)
        takes = deletions(_as_column(word, self._changes, None), self._changes)
        return takes if takes.any() else None

    def key_numbers(self, row: Row, table: KeyTable) -> Array:
        """Return the number of the row's key."""
        cells = [_cell(row.cells, name) for name, _, _ in self._keys]
        known = cells and all(type(cell) in types for cell, (_, _, types) in zip(cells, self._keys, strict=True))
        numbers = table.remembered([tuple(cells)]) if known else None
        if numbers is None:
            columns = [_as_column(cell, name, kind) for cell, (name, kind, _) in zip(cells, self._keys, strict=True)]
            numbers = table.numbers(columns, 1)
        return numbers


def _cell(cells: Mapping[str, Any], name: str) -> Any:
    return cells[name] if name in cells else pick(cells, name, list(cells))


def _as_column(cell: Any, name: str, kind: pa.DataType | None) -> Any:
    """Return a cell as an Arrow column, cast unless the type is None; reject one that does not fit."""
    column = as_table({name: [cell]}).column(0)
    return column if kind is None else cast_safely(column, kind, name)


_PLAIN: dict[pa.DataType | None, tuple[type, ...]] = {
    pa.int64(): (int, np.int64),
    pa.float64(): (float, np.float64),
    pa.bool_(): (bool, np.bool_),
}
"""Column types, and the cell types that NumPy converts as Arrow does."""


def _cell_reader(name: str, kind: ColumnType, wanted: pa.DataType | None) -> Callable[[Any], Column]:
    """Return a function that reads a cell as a column of a kind; other cells are cast to `wanted`, unless None."""
    plain = _PLAIN.get(kind.logical, ())

    def read(cell: Any) -> Column:
        if type(cell) in plain:
            try:
                return Column(read_only(np.array((cell,), kind.physical)), None, kind)
            except OverflowError:
                pass  # Arrow reports that no integer type holds it, or that another one does
        return read_column(_as_column(cell, name, wanted), name)

    return read
