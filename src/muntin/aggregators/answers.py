"""Answers as Python values: numbers, None, named tuples, lists."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding, Result
from muntin.types import Array, logical_value


def read_answers(binding: Binding, outputs: tuple[Array, ...], held: Array) -> dict[str, list[Any]]:
    """Return the answers in all rows of the outputs, by name; `held` says which of the windows hold rows."""
    answers: dict[str, list[Any]] = {}
    raw = binding.raw_results(outputs)
    for name, part, result, (values, valid) in zip(binding.names, binding.parts, binding.results, raw, strict=True):
        known = held if valid is None else held & valid
        if _is_number(result):
            cells = values.tolist()  # what `_value` makes of each, in a hundredth of the time
        else:
            cells = [_value(values[i : i + 1], result) if ok else None for i, ok in enumerate(known)]
        answers[name] = [
            cell if ok else part.empty if not here else None
            for cell, ok, here in zip(cells, known.tolist(), held.tolist(), strict=True)
        ]
    return answers


def read_answer(binding: Binding, outputs: tuple[Array, ...], empty: bool) -> dict[str, Any]:
    """Return the answers in row 0 of the outputs, by name."""
    answers: dict[str, Any] = {}
    raw = binding.raw_results(outputs)
    for name, part, result, (values, valid) in zip(binding.names, binding.parts, binding.results, raw, strict=True):
        if empty:
            answers[name] = part.empty
        elif valid is not None and not valid[0]:
            answers[name] = None
        else:
            answers[name] = _value(values[:1], result)
    return answers


def _is_number(result: Result) -> bool:
    """Say whether answers are numbers that NumPy gives to Python as they are."""
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
