"""Answers as Python values: numbers, None, named tuples, lists."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding, Result
from muntin.types import Array, logical_value


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
