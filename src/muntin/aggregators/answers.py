"""Answers as Python values: numbers, None, named tuples, lists."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from muntin.aggregations.binding import Binding, Result
from muntin.types import Array, logical_value


def read_answers(binding: Binding, outputs: tuple[Array, ...], held: Array) -> dict[str, list[Any]]:
    """Return the answers in all rows of the outputs, by name; `held` marks the windows that hold rows."""
    return {
        name: [_answer(column, row, here) for row, here in enumerate(held.tolist())]
        if not _is_number(column.result)
        else _numbers(column, held)
        for name, column in _columns(binding, outputs).items()
    }


def read_answer(binding: Binding, outputs: tuple[Array, ...], empty: bool) -> dict[str, Any]:
    """Return the answers in row 0 of the outputs, by name."""
    return {name: _answer(column, 0, not empty) for name, column in _columns(binding, outputs).items()}


class _Column(NamedTuple):
    """The outputs of kernels for one aggregation."""

    values: Array
    valid: Array | None
    result: Result
    empty: Any


def _columns(binding: Binding, outputs: tuple[Array, ...]) -> dict[str, _Column]:
    raw = zip(binding.names, binding.aggregations, binding.results, binding.raw_results(outputs), strict=True)
    return {name: _Column(*written, result, each.empty) for name, each, result, written in raw}


def _answer(column: _Column, row: int, held: bool) -> Any:
    if not held:
        return column.empty if column.result.length is None or column.empty is None else np.array(column.empty)
    if column.valid is not None and not column.valid[row]:
        return None
    return _value(column.values[row : row + 1], column.result)


def _numbers(column: _Column, held: Array) -> list[Any]:
    """Return what `_answer` returns for each row, in a hundredth of the time."""
    known = held if column.valid is None else held & column.valid
    cells = zip(column.values.tolist(), known.tolist(), held.tolist(), strict=True)
    return [cell if ok else None if here else column.empty for cell, ok, here in cells]


def _is_number(result: Result) -> bool:
    """Return whether answers are numbers that NumPy converts to Python directly."""
    whole = result.ending is None and not result.names and result.length is None
    return whole and result.types[0].family in ("boolean", "integer", "floating")


def _value(values: Array, result: Result) -> Any:
    if result.ending is not None:
        return logical_value(result.ending.answers(values, None)[0], result.ending.type)
    value = values[0]
    if result.names:
        parts = [logical_value(value[name], kind) for name, kind in zip(result.names, result.types, strict=True)]
        return _record(result.names)(*parts)
    if result.length is not None:
        return np.array(value)
    return logical_value(value, result.types[0])


@cache
def _record(names: tuple[str, ...]) -> Any:
    return namedtuple("Answer", names)  # noqa: PYI024  # the names are known only now
