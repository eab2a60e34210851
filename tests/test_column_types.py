"""Physical arrays as Arrow arrays: whatever they are in memory, the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin.types import Array, column_type, logical_array

KINDS = [
    *(pa.int8(), pa.uint64(), pa.int64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.timestamp("us", "UTC"), pa.duration("ms")),
]


def physical(kind: pa.DataType) -> Array:
    return np.array([0, 1, 0, 86_400_000 % 100, 1]).astype(column_type(kind).physical)


def expected(values: Array, valid: list[bool], kind: pa.DataType) -> Any:
    cells = [value if ok else None for value, ok in zip(values.tolist(), valid, strict=True)]
    plain = pa.array(cells, pa.from_numpy_dtype(values.dtype))
    return plain.view(kind) if pa.types.is_temporal(kind) else plain.cast(kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("step", [1, 2, -1])
def test_an_array_is_the_same_in_arrow(kind: pa.DataType, step: int) -> None:
    values = physical(kind)[::step]
    made = logical_array(values, None, column_type(kind))
    made.validate()
    assert made.equals(expected(values, [True] * len(values), kind))
    assert made.type == kind
    held = np.arange(len(values)) % 2 == 0
    masked = logical_array(values, held, column_type(kind))
    assert masked.equals(expected(values, held.tolist(), kind))
    assert logical_array(values[:0], None, column_type(kind)).equals(pa.array([], kind))


def test_nan_is_a_number_and_values_of_another_width_are_cast() -> None:
    numbers = logical_array(np.array([np.nan, -0.0]), None, column_type(pa.float64()))
    assert numbers.null_count == 0
    assert str(numbers.to_pylist()) == "[nan, -0.0]"
    assert logical_array(np.array([1, 2], "i4"), None, column_type(pa.int64())).equals(pa.array([1, 2]))
    swapped = logical_array(np.array([1, 2], ">i8").astype("<i8"), None, column_type(pa.int64()))
    assert swapped.to_pylist() == [1, 2]
