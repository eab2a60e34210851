"""Rows as mappings of columns to values, such as lines of JSON, as an Arrow table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import GeneratorType
from typing import Any

import pyarrow as pa

from muntin.errors import ColumnTypeError, InvalidArgumentError

REFUSALS = (pa.ArrowException, OverflowError, TypeError, UnicodeError)
"""What Arrow raises where values make no column: of different types, too large, no columns at all."""


def holds_rows(table: Any) -> bool:
    """Say whether a table is a list, a tuple or an iterator: of mappings, if it is one at all. O(1).

    >>> holds_rows([{"v": 1}]), holds_rows({"v": [1]})
    (True, False)
    """
    return isinstance(table, list | tuple | Iterator)


def table_of_rows(rows: Iterable[Any], expected: Sequence[str] = (), optional: Iterable[str] = ()) -> pa.Table:
    """Return mappings as a table: its columns are their keys, by first appearance, and null where a row lacks one.

    No rows have the `expected` columns, of nulls. `optional` columns that no row has are null. O(cells).

    >>> table_of_rows([{"t": 1, "v": 2.5}, {"t": 2}]).to_pydict()
    {'t': [1, 2], 'v': [2.5, None]}
    """
    if isinstance(rows, GeneratorType) and rows.gi_frame is None:
        raise InvalidArgumentError(
            f"the generator {rows.__name__!r} has been read to its end before; make a new one, or a list of it"
        )
    held = rows if isinstance(rows, list | tuple) else list(rows)
    names = _names(held) if held else list(expected)
    columns = {name: _column([row.get(name) for row in held], name) for name in names}
    columns |= {name: pa.nulls(len(held)) for name in optional if name not in columns}
    return pa.table(columns)


def _names(rows: Sequence[Any]) -> list[str]:
    """Return the keys of all rows, by first appearance; reject rows that are no mappings of names."""
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidArgumentError(
                "a table is needed: a list of rows holds mappings of columns to values, such as {'ts': 1, 'v': 2.5}; "
                f"row {i} is a {type(row).__name__}"
            )
    first = rows[0].keys()
    alike = all(row.keys() == first for row in rows)
    names = list(first if alike else dict.fromkeys(name for row in rows for name in row))
    for name in names:
        if not isinstance(name, str):
            row = next(i for i, each in enumerate(rows) if name in each)
            raise InvalidArgumentError(f"row {row} has the key {name!r}; the names of columns are strings")
    return names


def _column(values: list[Any], name: str) -> pa.Array:
    try:
        return pa.array(values, from_pandas=False)
    except (*REFUSALS, ValueError) as error:
        raise _refusal(values, name, error) from error


def _refusal(values: list[Any], name: str, error: Exception) -> ColumnTypeError:
    """Return the error for the first row whose value does not fit those before it. O(n log n)."""
    fit, tried = 0, len(values)
    while tried - fit > 1:
        half = (fit + tried) // 2
        fit, tried = (half, tried) if _fits(values[:half]) else (fit, half)
    value = f"{values[fit]!r:.60} ({type(values[fit]).__name__})"
    if fit == 0:
        return ColumnTypeError(f"column {name!r} holds {value} in row 0, which makes no column: {error}")
    kind = pa.array(values[:fit], from_pandas=False).type
    return ColumnTypeError(
        f"column {name!r} holds {kind} in the rows before row {fit}, and there {value}; give all rows one type"
    )


def _fits(values: list[Any]) -> bool:
    try:
        pa.array(values, from_pandas=False)
    except (*REFUSALS, ValueError):
        return False
    return True
