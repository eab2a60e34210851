"""Results in the same kind of array as the values."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from muntin.aggregations.binding import Result
from muntin.arrays.results import Raw, to_arrow
from muntin.tabular import pandas_series
from muntin.types import OBJECT, Array, ColumnType, logical_array


class Container(Protocol):
    """A kind of array: NumPy, Arrow, pandas or polars."""

    def one(self, raw: Raw) -> Any:
        """Return one result."""

    def many(self, raw: Mapping[str, Raw]) -> Any:
        """Return several results by name."""

    def aligned(self, out: Any, values: Any) -> Any:
        """Give the result the row labels of the values, if it has one row per row."""


def container_of(values: Any) -> Container:
    """Return the container for results of these values."""
    if isinstance(values, Mapping):
        values = next(iter(values.values()), [])
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(values, pandas.Series | pandas.DataFrame | pandas.Index):
        return _Pandas()
    if polars is not None and isinstance(values, polars.Series | polars.DataFrame):
        return _Polars()
    if isinstance(values, pa.ChunkedArray | pa.Table):
        return _Arrow(chunked=True)
    if not isinstance(values, np.ndarray) and (
        isinstance(values, pa.Array | pa.RecordBatch)
        or hasattr(values, "__arrow_c_array__")
        or hasattr(values, "__arrow_c_stream__")
    ):
        return _Arrow(chunked=False, table=not isinstance(values, pa.RecordBatch))
    return _NumPy()


class _Arrow:
    def __init__(self, chunked: bool, table: bool = True) -> None:
        self.chunked = chunked
        self.table = table

    def one(self, raw: Raw) -> Any:
        array = to_arrow(raw)
        return pa.chunked_array([array]) if self.chunked else array

    def many(self, raw: Mapping[str, Raw]) -> Any:
        arrays = {name: to_arrow(each) for name, each in raw.items()}
        return pa.table(arrays) if self.table else pa.record_batch(arrays)

    def aligned(self, out: Any, values: Any) -> Any:
        return out


class _NumPy:
    def one(self, raw: Raw) -> Any:
        values, valid, result = raw
        if result.names:
            return _masked(_logical_record(values, result), valid)
        if result.length is not None:
            return _masked(values, None if valid is None else np.repeat(valid[:, None], result.length, 1))
        kind = result.types[0]
        if kind.family in ("temporal", "duration"):
            return logical_array(values, valid, kind).to_numpy(zero_copy_only=False)
        return _with_nulls(values, valid, kind)

    def many(self, raw: Mapping[str, Raw]) -> Any:
        return {name: self.one(each) for name, each in raw.items()}

    def aligned(self, out: Any, values: Any) -> Any:
        return out


def _with_nulls(values: Array, valid: Array | None, kind: ColumnType) -> Any:
    if valid is None or valid.all():
        return values
    if kind.physical == OBJECT:
        values[~valid] = None
        return values
    if kind.physical.kind == "f":
        values[~valid] = np.nan
        return values
    return np.ma.MaskedArray(values, ~valid)


def _masked(values: Array, valid: Array | None) -> Any:
    return values if valid is None or valid.all() else np.ma.MaskedArray(values, ~valid)


def _logical_record(values: Array, result: Result) -> Array:
    """Give the fields that are times their NumPy time types."""
    if not any(kind.family in ("temporal", "duration") for kind in result.types):
        return values
    columns = {
        name: logical_array(np.ascontiguousarray(values[name]), None, kind).to_numpy(zero_copy_only=False)
        for name, kind in zip(result.names, result.types, strict=True)
    }
    record = np.empty(len(values), [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        record[name] = column
    return record


class _Pandas:
    def one(self, raw: Raw) -> Any:
        import pandas

        if raw[2].names:
            array = to_arrow(raw)
            return pandas.DataFrame({name: pandas_series(array.field(name)) for name in raw[2].names})
        return self._column(raw)

    def _column(self, raw: Raw) -> Any:
        import pandas

        values, valid, result = raw
        if result.types[0].logical is None:  # Python objects, which Arrow would convert
            kept = np.ones(len(values), np.bool_) if valid is None else valid
            return pandas.Series([v if ok else None for v, ok in zip(values, kept, strict=True)], dtype=object)
        return pandas_series(to_arrow(raw))

    def many(self, raw: Mapping[str, Raw]) -> Any:
        import pandas

        return pandas.DataFrame({name: self._column(each) for name, each in raw.items()})

    def aligned(self, out: Any, values: Any) -> Any:
        import pandas

        if isinstance(values, Mapping):
            values = next(iter(values.values()))
        if isinstance(values, pandas.Series | pandas.DataFrame):
            out.index = values.index
        if isinstance(values, pandas.Series) and isinstance(out, pandas.Series):
            out.name = values.name
        return out


class _Polars:
    def one(self, raw: Raw) -> Any:
        import polars

        return polars.Series(to_arrow(raw))

    def many(self, raw: Mapping[str, Raw]) -> Any:
        import polars

        return polars.DataFrame({name: self.one(each) for name, each in raw.items()})

    def aligned(self, out: Any, values: Any) -> Any:
        import polars

        return out.alias(values.name) if isinstance(values, polars.Series) and isinstance(out, polars.Series) else out
