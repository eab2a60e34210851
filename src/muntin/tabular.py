"""Tables of any kind in, and tables of the same kind out: Arrow, pandas and polars.

What is none of the last two is Arrow, a mapping of columns or a list of mappings, and gives Arrow. Columns are read as
Arrow, and only those that are asked for. What is read but once, or when it is asked for, is `opened` first.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.batches import BatchSource, source_of
from muntin.columns import in_one_piece, require_columns
from muntin.errors import InvalidArgumentError
from muntin.layouts import plain_table
from muntin.mappings import REFUSALS, holds_rows, table_of_rows
from muntin.types import Array


class TableKind(ABC):
    """A kind of table: how it is read, and how answers are written."""

    @abstractmethod
    def names(self, table: Any) -> list[Any]:
        """Return the names of its columns."""

    def read(self, table: Any, names: Sequence[str]) -> pa.Table:
        """Return some columns of a table as Arrow; refuse names that it has not. O(rows)."""
        require_columns(names, self.names(table))
        try:
            return in_one_piece(plain_table(self._read(table, list(names))))
        except REFUSALS as error:
            raise InvalidArgumentError(f"these columns make no table: {error}") from error

    @abstractmethod
    def _read(self, table: Any, names: list[str]) -> pa.Table: ...

    @abstractmethod
    def write(self, answer: pa.Table) -> Any:
        """Return an answer as a table of this kind."""

    @abstractmethod
    def beside(self, table: Any, columns: Mapping[str, pa.Array]) -> Any:
        """Return a table with columns more, one value for each of its rows."""

    @abstractmethod
    def take(self, table: Any, places: Array) -> Any:
        """Return some of the rows of a table, by their numbers. O(rows)."""


class _Arrow(TableKind):
    def names(self, table: Any) -> list[Any]:
        return list(table) if isinstance(table, Mapping) else as_table(table).column_names

    def _read(self, table: Any, names: list[str]) -> pa.Table:
        asked = as_table({name: table[name] for name in names} if isinstance(table, Mapping) else table)
        return asked.select(names)

    def write(self, answer: pa.Table) -> Any:
        return answer

    def beside(self, table: Any, columns: Mapping[str, pa.Array]) -> Any:
        out = in_one_piece(as_table(table))
        more = [pa.field(name, column.type) for name, column in columns.items()]
        schema = pa.schema([*out.schema, *more], metadata=out.schema.metadata)
        return pa.Table.from_arrays([*out.columns, *columns.values()], schema=schema)

    def take(self, table: Any, places: Array) -> Any:
        return plain_table(as_table(table)).take(pa.array(places))


class _Pandas(TableKind):
    def names(self, table: Any) -> list[Any]:
        return list(table.columns)

    def _read(self, table: Any, names: list[str]) -> pa.Table:
        return _from_pandas(table[names])

    def write(self, answer: pa.Table) -> Any:
        import pandas

        return pandas.DataFrame({name: pandas_series(answer[name]) for name in answer.column_names})

    def beside(self, table: Any, columns: Mapping[str, pa.Array]) -> Any:
        found = self.write(pa.table(columns))
        found.index = table.index
        return table.assign(**{name: found[name] for name in found.columns})

    def take(self, table: Any, places: Array) -> Any:
        return table.iloc[places]


class _Polars(TableKind):
    def names(self, table: Any) -> list[Any]:
        return list(table.columns)

    def _read(self, table: Any, names: list[str]) -> pa.Table:
        return table.select(names).to_arrow()

    def write(self, answer: pa.Table) -> Any:
        import polars

        return polars.from_arrow(answer)

    def beside(self, table: Any, columns: Mapping[str, pa.Array]) -> Any:
        return table.hstack(self.write(pa.table(columns)))

    def take(self, table: Any, places: Array) -> Any:
        return table[places]


class _Batched(TableKind):
    """A table that comes in batches: read whole where all its columns are asked for."""

    def __init__(self, source: BatchSource) -> None:
        self._source = source

    def names(self, table: BatchSource) -> list[Any]:
        return list(table.schema.names)

    def _read(self, table: BatchSource, names: list[str]) -> pa.Table:
        return pa.concat_tables(list(table.tables(names)))

    def write(self, answer: pa.Table) -> Any:
        return self._source.write(answer)

    def beside(self, table: BatchSource, columns: Mapping[str, pa.Array]) -> Any:
        held = table.whole()
        return kind_of(held).beside(held, columns)

    def take(self, table: BatchSource, places: Array) -> Any:
        held = table.whole()
        return kind_of(held).take(held, places)


def opened(table: Any, expected: Sequence[str] = (), optional: Iterable[str] = ()) -> Any:
    """Return a table of which names and columns can be read, each at its time; most tables are returned as they are.

    A LazyFrame, a dataset or a stream of batches becomes a `BatchSource`, and a list or an iterator of mappings a table
    of Arrow (see `table_of_rows` for `expected` and `optional`).

    >>> opened([{"v": 1}, {"v": 2}]).to_pydict()
    {'v': [1, 2]}
    """
    if isinstance(table, pa.Table | Mapping):
        return table
    if holds_rows(table) and not isinstance(table, pa.RecordBatchReader):
        return table_of_rows(table, expected, optional)
    if _is(table, "pandas", "DataFrame") or is_polars(table) or hasattr(table, "sparkSession"):
        return table
    found = source_of(table)
    if found is None and hasattr(table, "__arrow_c_stream__") and not hasattr(table, "__arrow_c_array__"):
        return _source_of_stream(table)
    return table if found is None else found


def _source_of_stream(stream: Any) -> Any:
    """Return what gives its rows to Arrow, perhaps once, such as the result of a query, as a source of batches."""
    try:
        return source_of(pa.RecordBatchReader.from_stream(stream))
    except REFUSALS as error:
        raise InvalidArgumentError(f"these columns make no table: {error}") from error


def whole(table: Any, expected: Sequence[str] = ()) -> Any:
    """Return a table whose rows are in memory: of a LazyFrame a DataFrame, of batches and rows an Arrow table. O(rows).

    >>> whole(pa.table({"v": [1]}).to_reader()).to_pydict()
    {'v': [1]}
    """
    found = opened(table, expected)
    return found.whole() if isinstance(found, BatchSource) else found


def kind_of(table: Any) -> TableKind:
    """Return the kind of a table, which is `opened`. O(1); neither pandas nor polars is imported.

    >>> kind_of({"v": [1, 2]}).read({"v": [1, 2], "w": [3, 4]}, ["w"]).to_pydict()
    {'w': [3, 4]}
    """
    if _is(table, "pandas", "DataFrame"):
        return _Pandas()
    if isinstance(table, BatchSource):
        return _Batched(table)
    return _Polars() if is_polars(table) else _Arrow()


def is_polars(table: Any) -> bool:
    """Say whether a value is a DataFrame of polars. O(1)."""
    return _is(table, "polars", "DataFrame")


def _is(table: Any, module: str, name: str) -> bool:
    """Say whether a value is of a class, whose module is not imported unless it was."""
    found = sys.modules.get(module)
    return found is not None and isinstance(table, getattr(found, name))


def as_table(table: Any, expected: Sequence[str] = (), optional: Iterable[str] = ()) -> pa.Table:
    """Return rows of any kind (Arrow, pandas, polars, a mapping of columns, a list of mappings) as an Arrow table.

    `expected` and `optional` are columns of mappings, see `table_of_rows`.
    """
    if isinstance(table, pa.Table):
        return table
    table = opened(table, expected, optional)
    try:
        if isinstance(table, pa.Table):
            return table
        if isinstance(table, BatchSource):
            return pa.concat_tables(list(table.tables()))
        if isinstance(table, pa.RecordBatch):
            return pa.Table.from_batches([table])
        if isinstance(table, Mapping):
            return pa.table({name: _values(column) for name, column in table.items()})
        if _is(table, "pandas", "DataFrame"):
            return _from_pandas(table)
        if is_polars(table):
            return table.to_arrow()
        if hasattr(table, "__arrow_c_stream__"):
            return pa.table(table)
    except REFUSALS as error:
        raise InvalidArgumentError(f"these columns make no table: {_refused_column(table)}{error}") from error
    raise InvalidArgumentError(
        "a table is needed: Arrow, pandas, polars, a dict of columns or a list of rows as dicts; got a "
        f"{type(table).__name__}"
    )


def _from_pandas(frame: Any) -> pa.Table:
    """Return a DataFrame of pandas as Arrow: None, NaT and NA are null, and NaN stays a value, as it is in `slide`."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for i, column in enumerate(table.columns):
        if column.null_count and _holds_floats(frame.iloc[:, i]):
            table = table.set_column(i, table.schema.field(i), pa.array(frame.iloc[:, i].to_numpy(), from_pandas=False))
    return table


def _values(column: Any) -> Any:
    """Return a column of a mapping; Arrow would take NaN in a Series of pandas for null."""
    return column.to_numpy() if _is(column, "pandas", "Series") and _holds_floats(column) else column


def _holds_floats(series: Any) -> bool:
    return isinstance(series.dtype, np.dtype) and series.dtype.kind == "f"


def _refused_column(table: Any) -> str:
    """Name the column of a mapping that Arrow refuses, where it is one by itself."""
    for name, column in table.items() if isinstance(table, Mapping) else ():
        try:
            pa.table({name: column})
        except REFUSALS:
            return f"column {name!r}: "
    return ""


def pandas_series(array: pa.Array | pa.ChunkedArray) -> Any:
    """Return a pandas Series; integers and booleans with nulls keep their digits in pandas' nullable types."""
    import pandas

    if array.null_count and (pa.types.is_integer(array.type) or pa.types.is_boolean(array.type)):
        name = "boolean" if pa.types.is_boolean(array.type) else str(array.type).replace("i", "I").replace("u", "U")
        return array.to_pandas(types_mapper=lambda _: pandas.api.types.pandas_dtype(name))
    if pa.types.is_nested(array.type):
        return pandas.Series(array.to_pylist(), dtype=object)
    return array.to_pandas()
